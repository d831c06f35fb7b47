//! Instructions of BPF, as the kernel's document has them (`Documentation/bpf/standardization/instruction-set.rst`).
//!
//! Only what the programs of this crate need. The kernel's verifier checks the result.

use std::collections::HashMap;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Register {
    /// The result of a helper, and of the program.
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    /// Kept by helpers, as the next three.
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    /// The end of the stack.
    Frame = 10,
}

/// The size of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Size {
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// A function of the kernel (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Helper {
    MapLookup = 1,
    CurrentProcessAndThread = 14,
    CurrentName = 16,
    CurrentTask = 35,
    ReadKernel = 113,
    RingReserve = 131,
    RingSubmit = 132,
}

/// The condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum When {
    Always = 0x00,
    Equal = 0x10,
}

/// A program that is being written.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    instructions: Vec<u64>,
    labels: HashMap<&'static str, usize>,
    jumps: Vec<(usize, &'static str)>,
}

fn encoded(code: u8, to: Register, from: Register, offset: i16, number: i32) -> u64 {
    u64::from(code)
        | u64::from(to as u8) << 8
        | u64::from(from as u8) << 12
        | u64::from(offset as u16) << 16
        | u64::from(number as u32) << 32
}

impl Assembler {
    fn add(&mut self, code: u8, to: Register, from: Register, offset: i16, number: i32) {
        self.instructions
            .push(encoded(code, to, from, offset, number));
    }

    /// `to = from`.
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.add(0xbf, to, from, 0, 0);
    }

    /// `to = number`.
    pub(crate) fn set(&mut self, to: Register, number: i32) {
        self.add(0xb7, to, Register::R0, 0, number);
    }

    /// `to += number`.
    pub(crate) fn add_number(&mut self, to: Register, number: i32) {
        self.add(0x07, to, Register::R0, 0, number);
    }

    /// `to |= from`.
    pub(crate) fn or(&mut self, to: Register, from: Register) {
        self.add(0x4f, to, from, 0, 0);
    }

    /// `to >>= bits`, without sign.
    pub(crate) fn shift_right(&mut self, to: Register, bits: i32) {
        self.add(0x77, to, Register::R0, 0, bits);
    }

    /// `to <<= bits`.
    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) {
        self.add(0x67, to, Register::R0, 0, bits);
    }

    /// `to = *(from + offset)`.
    pub(crate) fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.add(0x61 | size as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`.
    pub(crate) fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.add(0x63 | size as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = number`.
    pub(crate) fn store_number(&mut self, size: Size, to: Register, offset: i16, number: i32) {
        self.add(0x62 | size as u8, to, Register::R0, offset, number);
    }

    /// `*(to + offset) += from`, atomically, eight bytes.
    pub(crate) fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.add(0xdb, to, from, offset, 0);
    }

    /// `to` is the map with this descriptor.
    pub(crate) fn map(&mut self, to: Register, descriptor: i32) {
        // `BPF_PSEUDO_MAP_FD` stands in the place of the source.
        self.add(0x18, to, Register::R1, 0, descriptor);
        self.instructions.push(0);
    }

    /// Calls a helper with `R1` to `R5`.
    pub(crate) fn call(&mut self, helper: Helper) {
        self.add(0x85, Register::R0, Register::R0, 0, helper as i32);
    }

    /// Goes to `label` if the register and the number are so.
    pub(crate) fn jump(&mut self, when: When, one: Register, number: i32, label: &'static str) {
        self.jumps.push((self.instructions.len(), label));
        self.add(0x05 | when as u8, one, Register::R0, 0, number);
    }

    /// The place of a label.
    pub(crate) fn label(&mut self, label: &'static str) {
        self.labels.insert(label, self.instructions.len());
    }

    /// Ends the program with 0.
    pub(crate) fn exit(&mut self) {
        self.set(Register::R0, 0);
        self.add(0x95, Register::R0, Register::R0, 0, 0);
    }

    /// The instructions, with all jumps. A label that is nowhere makes a jump that the verifier refuses.
    pub(crate) fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let target = self.labels.get(label).copied().unwrap_or(usize::MAX >> 1);
            let distance = target as i64 - *at as i64 - 1;
            if let Some(instruction) = self.instructions.get_mut(*at) {
                *instruction |= u64::from(distance as i16 as u16) << 16;
            }
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_as_the_kernels_document_has_them() {
        let mut assembler = Assembler::default();
        assembler.copy(Register::R6, Register::R1);
        assembler.load(Size::Double, Register::R8, Register::R6, 8);
        assembler.jump(When::Equal, Register::R0, 7, "end");
        assembler.store_number(Size::Word, Register::Frame, -8, -1);
        assembler.map(Register::R1, 5);
        assembler.call(Helper::MapLookup);
        assembler.label("end");
        assembler.exit();
        assert_eq!(
            assembler.finish(),
            [
                0x0000_0000_0000_16bf,
                0x0000_0000_0008_6879,
                0x0000_0007_0004_0015,
                0xffff_ffff_fff8_0a62,
                0x0000_0005_0000_1118,
                0,
                0x0000_0001_0000_0085,
                0x0000_0000_0000_00b7,
                0x0000_0000_0000_0095,
            ]
        );
    }
}
