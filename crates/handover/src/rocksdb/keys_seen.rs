//! A data block, read for the order of its keys.

use coldstream_sstable::memory;
use coldstream_sstable::rocksdb::{Orders, SsTable};
use coldstream_sstable::{Error, Result};

/// What the keys of a data block show.
pub(super) struct KeysSeen {
    /// `None` if the block could not be read.
    pub(super) first: Option<Vec<u8>>,
    pub(super) orders: Orders,
}

impl KeysSeen {
    /// Reads a block, unless that is not possible, and finds those of `orders` that fit its keys.
    pub(super) fn in_block(
        sstable: &SsTable<'_>,
        offset: u64,
        length: u64,
        orders: Orders,
    ) -> Result<Self> {
        let (mut first, mut previous) = (None, Vec::new());
        let mut seen = Ok(orders);
        let read = sstable.user_keys(offset, length, |key| {
            if let Ok(orders) = &seen {
                let orders = match &first {
                    Some(_) => orders.seen(&previous, key),
                    None => *orders,
                };
                seen = memory::copy(key, &mut previous).map(|()| orders);
                first.get_or_insert_with(|| memory::copied(key));
            }
        });
        match read {
            Err(Error::OutOfMemory) => Err(Error::OutOfMemory),
            Ok(()) | Err(_) => Ok(Self {
                orders: seen?,
                first: first.transpose()?,
            }),
        }
    }
}
