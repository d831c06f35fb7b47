package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Keys and values. A value follows from its key, so that every read can be verified. All of it is as in
// content.h of the driver of RocksDB.

// mix is splitmix64: small, and good enough to be incompressible.
func mix(state *uint64) uint64 {
	*state += 0x9E3779B97F4A7C15
	z := *state
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// content makes and compares values of one size.
type content struct {
	words uint64
}

func newContent(valueBytes uint64) content {
	return content{words: max(valueBytes/8, 2)}
}

// key of a number.
func key(number uint64) []byte {
	return fmt.Appendf(nil, "%016d", number)
}

func (c content) valueBytes() uint64 {
	return c.words * 8
}

// fill writes the value of a number and a version into buffer, and returns it.
func (c content) fill(number, version uint64, buffer []byte) []byte {
	buffer = binary.LittleEndian.AppendUint64(buffer[:0], number)
	buffer = binary.LittleEndian.AppendUint64(buffer, version)
	state := number*1000003 + version
	for word := uint64(2); word < c.words; word++ {
		buffer = binary.LittleEndian.AppendUint64(buffer, mix(&state))
	}
	return buffer
}

// matches tells whether a value is any version of this number's. The buffer is returned for the next
// call.
func (c content) matches(number uint64, value, buffer []byte) (bool, []byte) {
	if uint64(len(value)) != c.valueBytes() {
		return false, buffer
	}
	buffer = c.fill(number, binary.LittleEndian.Uint64(value[8:]), buffer)
	return bytes.Equal(value, buffer), buffer
}
