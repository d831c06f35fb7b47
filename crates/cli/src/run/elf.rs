//! The part of an ELF file that decides whether a program can load a preload library: class, machine and dynamic
//! loader; and whether a library is the preload library, by what it exports.
//!
//! `object` reads them. It reads the parts of the file that are asked for, and checks every offset.

use std::fs::File;
use std::path::Path;

use object::elf::{
    EM_AARCH64, EM_X86_64, ET_DYN, FileHeader32, FileHeader64, FileType, Machine, PT_INTERP,
    SHT_DYNSYM,
};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, FileKind};

use crate::exit::{Exit, failure};

/// No linker writes more program headers.
const SEGMENTS_MAX: u16 = 256;
/// No loader has a longer path (`PATH_MAX`).
const INTERPRETER_BYTES_MAX: u64 = 4096;

/// The machine of the programs that can load this build of the library.
const MACHINE: Machine = if cfg!(target_arch = "aarch64") {
    EM_AARCH64
} else {
    EM_X86_64
};

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
struct Elf {
    is_64_bit: bool,
    machine: Machine,
    kind: FileType,
    /// Path of the dynamic loader; a static program has none.
    loader: Option<String>,
    /// Whether it is written in Go.
    is_go: bool,
}

/// The section in which Go's linker writes how it built the program (`cmd/link/internal/ld/data.go`).
const GO_SECTION: &[u8] = b".go.buildinfo";

/// Why the program cannot load the library, if so, and what to do.
pub fn check_program(path: &Path) -> Result<(), String> {
    let elf = read(path)?.ok_or("it is neither an ELF program nor a script with a #! line")?;
    check_machine(&elf)?;
    match &elf.loader {
        None => Err("it is statically linked; use a dynamically linked build of it, or start it without, and run `coldstream attach PID`"
            .to_owned()),
        Some(loader) if loader.contains("ld-musl") => {
            Err("it is built for musl, and the library for glibc; use a glibc build of it".into())
        }
        Some(_) => Ok(()),
    }
}

/// Whether a program is written in Go. Go makes its system calls itself, past every library.
pub fn is_go(path: &Path) -> bool {
    matches!(read(path), Ok(Some(elf)) if elf.is_go)
}

/// What the preload library exports, and no other library (`preload/exports/mod.rs`).
const OF_THE_PRELOAD_LIBRARY: &[u8] = b"coldstream_preloaded";
/// What the C interface exports (`crates/capi`).
const OF_THE_C_INTERFACE: &[u8] = b"coldstream_create";

/// Whether the file is the preload library, and programs of this machine can load it.
pub fn check_library(path: &Path) -> anyhow::Result<()> {
    let rebuild = "build it with `make build`, or reinstall the package";
    let checked = read(path).and_then(|elf| match elf {
        Some(elf) if elf.kind == ET_DYN => check_machine(&elf),
        _ => Err("it is not a shared library".to_owned()),
    });
    checked
        .map_err(|reason| (reason, rebuild))
        .and_then(|()| check_exports(path))
        .map_err(|(reason, advice)| {
            failure(
                Exit::Failure,
                format!("cannot preload {}: {reason}; {advice}", path.display()),
            )
        })
}

/// Refuses another library of this machine, with the reason and what to do.
fn check_exports(path: &Path) -> Result<(), (String, &'static str)> {
    let names = exported(path, &[OF_THE_PRELOAD_LIBRARY, OF_THE_C_INTERFACE]);
    let other = match names.map(|it| it.first().copied()) {
        Ok(Some(OF_THE_PRELOAD_LIBRARY)) => return Ok(()),
        Ok(Some(_)) => "it is the C interface, which programs link",
        Ok(None) => "it is another library than Coldstream's",
        Err(()) => "its table of symbols is damaged",
    };
    Err((
        other.to_owned(),
        "name libcoldstream.so, the preload library",
    ))
}

/// Those of some names that a library of this machine exports.
fn exported<'name>(path: &Path, names: &[&'name [u8]]) -> Result<Vec<&'name [u8]>, ()> {
    let data = &ReadCache::new(File::open(path).map_err(drop)?);
    let header = FileHeader64::<Endianness>::parse(data).map_err(drop)?;
    let endian = header.endian().map_err(drop)?;
    let sections = header.sections(endian, data).map_err(drop)?;
    let symbols = sections.symbols(endian, data, SHT_DYNSYM).map_err(drop)?;
    let exported = symbols.iter().filter(|it| !it.is_undefined(endian));
    let exported = exported.filter_map(|it| symbols.symbol_name(endian, it).ok());
    Ok(exported
        .filter_map(|found| names.iter().find(|name| **name == found).copied())
        .collect())
}

fn check_machine(elf: &Elf) -> Result<(), String> {
    if elf.is_64_bit && elf.machine == MACHINE {
        return Ok(());
    }
    let bits = if elf.is_64_bit { 64 } else { 32 };
    Err(format!(
        "it is built for another architecture ({bits}-bit, ELF machine {}), this is {}",
        elf.machine.0,
        std::env::consts::ARCH
    ))
}

/// Reads the file; `None` if it is not ELF.
fn read(path: &Path) -> Result<Option<Elf>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    // `object` reports a directory, for one, as a damaged file.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Ok(None);
    }
    let data = &ReadCache::new(file);
    let elf = match FileKind::parse(data) {
        Ok(FileKind::Elf64) => read_header::<FileHeader64<Endianness>, _>(data),
        Ok(FileKind::Elf32) => read_header::<FileHeader32<Endianness>, _>(data),
        _ => return Ok(None),
    };
    let elf = elf.map_err(|_| "its ELF header is damaged".to_owned())?;
    Ok(Some(elf))
}

fn read_header<'data, Header, Data>(data: Data) -> Result<Elf, ()>
where
    Header: FileHeader<Endian = Endianness>,
    Data: ReadRef<'data>,
{
    let header = Header::parse(data).map_err(drop)?;
    let endian = header.endian().map_err(drop)?;
    let mut elf = Elf {
        is_64_bit: header.is_class_64(),
        machine: header.e_machine(endian),
        kind: header.e_type(endian),
        loader: None,
        is_go: false,
    };
    if check_machine(&elf).is_err() {
        // The rest does not matter.
        return Ok(elf);
    }
    if header.e_phnum(endian) > SEGMENTS_MAX {
        return Err(());
    }
    for segment in header.program_headers(endian, data).map_err(drop)? {
        if segment.p_type(endian) != PT_INTERP {
            continue;
        }
        if segment.p_filesz(endian).into() > INTERPRETER_BYTES_MAX {
            return Err(());
        }
        let loader = segment.interpreter(endian, data).map_err(drop)?;
        elf.loader = loader.map(|path| String::from_utf8_lossy(path).into_owned());
    }
    // A program without section names, or with damaged ones, runs all the same.
    elf.is_go = header
        .sections(endian, data)
        .is_ok_and(|sections| sections.section_by_name(endian, GO_SECTION).is_some());
    Ok(elf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn own_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_test_is_dynamically_linked() {
        let elf = read(&std::env::current_exe().unwrap()).unwrap().unwrap();
        assert_eq!(elf.machine, MACHINE);
        assert!(elf.loader.unwrap().contains("ld-linux"));
        assert!(!elf.is_go);
        assert_eq!(check_program(&std::env::current_exe().unwrap()), Ok(()));
    }

    #[test]
    fn a_go_program_is_known_by_a_section() {
        const OF_EVERY_PROGRAM: &[u8] = b".eh_frame_hdr\0";
        let mut bytes = own_program();
        let names: Vec<usize> = (bytes.windows(OF_EVERY_PROGRAM.len()).enumerate())
            .filter(|(_, name)| *name == OF_EVERY_PROGRAM)
            .map(|(at, _)| at)
            .collect();
        for at in names {
            bytes[at..at + GO_SECTION.len()].copy_from_slice(GO_SECTION);
        }
        assert!(is_go(file_of(&bytes).path()));
        assert!(!is_go(file_of(&own_program()).path()));
        assert!(!is_go(file_of(b"hello").path()));
    }

    #[test]
    fn other_machines_are_named() {
        let mut bytes = own_program();
        bytes[18] = 8;
        bytes[19] = 0;
        let error = check_program(file_of(&bytes).path()).unwrap_err();
        assert!(error.contains("ELF machine 8"), "{error}");
        bytes[4] = 1;
        let error = check_program(file_of(&bytes).path()).unwrap_err();
        assert!(error.contains("32-bit"), "{error}");
    }

    #[test]
    fn other_files_are_reported() {
        for bytes in [&b""[..], b"hello", &[0; 100]] {
            let error = check_program(file_of(bytes).path()).unwrap_err();
            assert!(error.contains("neither"), "{error}");
        }
    }

    #[test]
    fn damaged_headers_are_errors() {
        let own = own_program();
        let mut far_table = own.clone();
        far_table[32..40].fill(0xff);
        let mut many_segments = own.clone();
        many_segments[56..58].fill(0xff);
        let mut small_segments = own.clone();
        small_segments[54] = 1;
        for bytes in [far_table, many_segments, small_segments, own[..64].to_vec()] {
            let error = check_program(file_of(&bytes).path()).unwrap_err();
            assert!(error.contains("damaged"), "{error}");
        }
    }
}
