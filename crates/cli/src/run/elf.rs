//! As much of the ELF header as tells whether a preload library can be loaded:
//! class, machine, and the loader that the program asks for. Reads a bounded
//! part of the file and trusts no offset in it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::exit::{Exit, failure};

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const TYPE_SHARED: u16 = 3;
const SEGMENT_INTERPRETER: u32 = 3;
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// More program headers than any linker writes.
const SEGMENTS_MAX: u16 = 256;
const INTERPRETER_BYTES_MAX: u64 = 4096;

/// `e_machine` of the programs that this build of the library can be loaded into.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};

/// What the header says.
#[derive(Debug, PartialEq, Eq)]
struct Elf {
    class: u8,
    machine: u16,
    kind: u16,
    /// Path of the dynamic loader; a static program names none.
    loader: Option<String>,
}

/// Why the program cannot take the library, if so, and what to do.
pub fn check_program(path: &Path) -> Result<(), String> {
    let elf = read(path)?.ok_or("it is neither an ELF program nor a script with a #! line")?;
    check_machine(&elf)?;
    match &elf.loader {
        None => Err("it is statically linked; use a dynamically linked build of it".to_owned()),
        Some(loader) if loader.contains("ld-musl") => {
            Err("it is built for musl, and the library for glibc; use a glibc build of it".into())
        }
        Some(_) => Ok(()),
    }
}

/// Whether the library is one that programs of this machine can load.
pub fn check_library(path: &Path) -> anyhow::Result<()> {
    let checked = read(path).and_then(|elf| match elf {
        Some(elf) if elf.kind == TYPE_SHARED => check_machine(&elf),
        _ => Err("it is not a shared library".to_owned()),
    });
    checked.map_err(|reason| {
        failure(
            Exit::Failure,
            format!(
                "cannot preload {}: {reason}; build it with `make build`",
                path.display()
            ),
        )
    })
}

fn check_machine(elf: &Elf) -> Result<(), String> {
    if elf.class == CLASS_64 && elf.machine == MACHINE {
        return Ok(());
    }
    let bits = if elf.class == CLASS_64 { 64 } else { 32 };
    Err(format!(
        "it is built for another architecture ({bits}-bit, ELF machine {}), this is {}",
        elf.machine,
        std::env::consts::ARCH
    ))
}

/// Reads the header; `None` if the file is not ELF.
fn read(path: &Path) -> Result<Option<Elf>, String> {
    let text = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = File::open(path).map_err(text)?;
    let mut header = [0; HEADER_BYTES];
    match file.read_exact_at(&mut header, 0) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other.map_err(text)?,
    }
    if !header.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let mut elf = Elf {
        class: header[4],
        machine: u16_at(&header, 18),
        kind: u16_at(&header, 16),
        loader: None,
    };
    if elf.class != CLASS_64 || header[5] != LITTLE_ENDIAN {
        // Other layout or byte order: another architecture, nothing more to learn.
        if header[5] != LITTLE_ENDIAN {
            elf.machine = elf.machine.swap_bytes();
        }
        return Ok(Some(elf));
    }
    let damaged = || "its ELF header is damaged".to_owned();
    let (table, size, count) = (
        u64_at(&header, 32),
        u16_at(&header, 54),
        u16_at(&header, 56),
    );
    if usize::from(size) < SEGMENT_BYTES || count > SEGMENTS_MAX {
        return Err(damaged());
    }
    for number in 0..count {
        let mut segment = [0; SEGMENT_BYTES];
        let offset = table.checked_add(u64::from(number) * u64::from(size));
        file.read_exact_at(&mut segment, offset.ok_or_else(damaged)?)
            .map_err(|_| damaged())?;
        if u32_at(&segment, 0) != SEGMENT_INTERPRETER {
            continue;
        }
        let length = u64_at(&segment, 32).min(INTERPRETER_BYTES_MAX);
        let mut name = vec![0; usize::try_from(length).map_err(|_| damaged())?];
        file.read_exact_at(&mut name, u64_at(&segment, 8))
            .map_err(|_| damaged())?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        elf.loader = Some(String::from_utf8_lossy(name).into_owned());
    }
    Ok(Some(elf))
}

fn field<const BYTES: usize>(bytes: &[u8], offset: usize) -> [u8; BYTES] {
    let slice = bytes.get(offset..offset + BYTES);
    slice
        .and_then(|slice| slice.try_into().ok())
        .unwrap_or([0; BYTES])
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(field(bytes, offset))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(field(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(field(bytes, offset))
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
        assert_eq!(check_program(&std::env::current_exe().unwrap()), Ok(()));
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
    fn what_is_not_elf_is_said_so() {
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
