//! Little-endian reads of a byte slice: `None` past its end, never a panic.

/// A part of the slice: `length` bytes from `offset` on.
pub fn bytes_at(bytes: &[u8], offset: usize, length: usize) -> Option<&[u8]> {
    bytes.get(offset..offset.checked_add(length)?)
}

/// A byte.
pub fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

/// Two bytes.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes_at(bytes, offset, 2)?.try_into().ok()?))
}

/// Four bytes.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes_at(bytes, offset, 4)?.try_into().ok()?))
}

/// Eight bytes.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes_at(bytes, offset, 8)?.try_into().ok()?))
}

/// A string that ends at a NUL byte, as ELF string tables hold them.
pub fn string_at(bytes: &[u8], offset: usize) -> Option<&str> {
    let rest = bytes.get(offset..)?;
    let length = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..length]).ok()
}
