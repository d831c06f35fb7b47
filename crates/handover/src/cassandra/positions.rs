//! The positions of located partitions, in the order of their numbers.

use coldstream_sstable::Result;

/// A partition's number, and its position in the uncompressed data.
pub(super) type Located = (usize, u64);

/// A sorted list. Partitions are located almost in their order, so most are added at its end.
#[derive(Debug, Default)]
pub(super) struct Positions {
    located: Vec<Located>,
}

impl Positions {
    pub(super) fn len(&self) -> usize {
        self.located.len()
    }

    pub(super) fn first(&self) -> Option<Located> {
        self.located.first().copied()
    }

    pub(super) fn last(&self) -> Option<Located> {
        self.located.last().copied()
    }

    /// The position of partition `number`.
    pub(super) fn get(&self, number: usize) -> Option<u64> {
        let (_, behind) = self.split(number);
        let (own, position) = *behind.first()?;
        (own == number).then_some(position)
    }

    /// Adds a partition, or replaces its position.
    pub(super) fn insert(&mut self, number: usize, position: u64) -> Result<()> {
        let at = self.split(number).0.len();
        match self.located.get_mut(at) {
            Some(known) if known.0 == number => known.1 = position,
            _ => {
                self.located.try_reserve(1)?;
                #[expect(clippy::disallowed_methods, reason = "there is room")]
                self.located.insert(at, (number, position));
            }
        }
        Ok(())
    }

    /// Those before partition `number`, and the others.
    pub(super) fn split(&self, number: usize) -> (&[Located], &[Located]) {
        let at = self.located.partition_point(|it| it.0 < number);
        self.located.split_at(at)
    }

    /// The last one up to partition `number`, including it.
    pub(super) fn last_up_to(&self, number: usize) -> Option<Located> {
        let end = self.located.partition_point(|it| it.0 <= number);
        self.located.get(..end)?.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_sorted_by_number() {
        let mut positions = Positions::default();
        for (number, position) in [(5, 50), (1, 10), (9, 90), (5, 55)] {
            positions.insert(number, position).unwrap();
        }
        assert_eq!(positions.len(), 3);
        assert_eq!(
            (positions.first(), positions.last()),
            (Some((1, 10)), Some((9, 90)))
        );
        assert_eq!((positions.get(5), positions.get(6)), (Some(55), None));
        assert_eq!(positions.last_up_to(0), None);
        assert_eq!(positions.last_up_to(5), Some((5, 55)));
        assert_eq!(positions.last_up_to(usize::MAX), Some((9, 90)));
        assert_eq!(
            positions.split(5),
            (&[(1, 10)][..], &[(5, 55), (9, 90)][..])
        );
    }
}
