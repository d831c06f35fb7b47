//! Known keys and file names.

use coldstream_sstable::Error;
use coldstream_sstable::cassandra::{Component, Descriptor, Format, Key};

/// Keys from Cassandra 5.0.9 (`PrintKeys.java`): key, byte-comparable form, 8 bits of its hash.
///
/// They cover the parts that are easy to get wrong:
///
/// - bytes of 0x80 and more in the last, incomplete block of 16;
/// - zeroes within the key and at its end;
/// - more than one block.
const KEYS: [(&str, &str, u8); 9] = [
    ("00", "40c610abe56eff5cb54000fe38", 0x83),
    ("80", "4036aa75aff6f3b43440800038", 0xc5),
    ("ff", "40425a08894c506b7f40ff0038", 0xc7),
    ("95a892", "40b1921fdf3922d3984095a8920038", 0xff),
    (
        "235c800000f1005dfc00215e00200041",
        "402139ba022126e4c840235c8000fefff100ff5dfc00ff215e00ff2000ff410038",
        0x04,
    ),
    (
        "df3ce0e00000e7003fec00460000cf9e00",
        "40ef16f7f43f691c0340df3ce0e000feffe700ff3fec00ff4600feffcf9e00fe38",
        0x03,
    ),
    (
        "01000000dc0018b3f0d14e441b000000",
        "40493c36e9ae92e5da400100fefeffdc00ff18b3f0d14e441b00fefefe38",
        0x6e,
    ),
    (
        "008f007a830b971c0038002f006800",
        "40706d79e6ee0ffc734000ff8f00ff7a830b971c00ff3800ff2f00ff6800fe38",
        0x44,
    ),
    (
        "80a6a18b00860056bc00b484006500982e00d3c6023b3a54721a4fd66c00d8900000ae0000000000585b0000",
        "4003cbab9918a9d89e4080a6a18b00ff8600ff56bc00ffb48400ff6500ff982e00ffd3c6023b3a54721a4f\
         d66c00ffd89000feffae00fefefefeff585b00fefe38",
        0xa4,
    ),
];

#[test]
fn keys_have_the_known_form() {
    for (partition_key, form, filter_hash) in KEYS {
        let key = Key::from_partition_key(&unhex(partition_key));
        assert_eq!(key.bytes(), unhex(form), "{partition_key}");
        assert_eq!(key.filter_hash(), Some(filter_hash));
        assert!(key.is_complete());
    }
}

#[test]
fn the_empty_key_has_the_lowest_token() {
    let key = Key::from_partition_key(&[]);
    assert_eq!(key.bytes(), unhex("400000000000000000400038"));
}

#[test]
fn files_of_known_versions_have_names() {
    let uuid = "3gtn_0w2g_0mkjk2ttp0ueyhbnc4";
    for (version, id, format) in [
        ("na", "1", Format::Big),
        ("nb", "123456", Format::Big),
        ("oa", uuid, Format::Big),
        ("pa", uuid, Format::Big),
        ("da", "7", Format::Bti),
        ("ea", uuid, Format::Bti),
    ] {
        let format_name = if format == Format::Big { "big" } else { "bti" };
        for (component, component_name) in [
            (Component::Data, "Data.db"),
            (Component::Index, "Index.db"),
            (Component::Partitions, "Partitions.db"),
            (Component::Rows, "Rows.db"),
            (Component::CompressionInfo, "CompressionInfo.db"),
            (Component::Statistics, "Statistics.db"),
        ] {
            let name = format!("{version}-{id}-{format_name}-{component_name}");
            let descriptor = Descriptor::parse(&name).expect("an SSTable's");
            assert_eq!(descriptor.format(), format);
            assert_eq!((descriptor.version(), descriptor.id()), (version, id));
            assert_eq!(descriptor.file_name(component), name);
        }
    }
    let summary = Descriptor::parse("nb-1-big-Summary.db").expect("any component will do");
    assert_eq!(summary.file_name(Component::Data), "nb-1-big-Data.db");
}

#[test]
fn other_names_are_not_supported() {
    for name in [
        "",
        "Data.db",
        "nb-1-big",
        "nb-1-big-",
        "nb-1-big-Data.db-",
        "nb--big-Data.db",
        "nb-x-big-Data.db",
        "nb-1-bti-Data.db",
        "da-1-big-Data.db",
        "nb-1-huge-Data.db",
        // A version of Cassandra 3, a future one, and one that never existed.
        "mc-1-big-Data.db",
        "qa-1-big-Data.db",
        "nc-1-big-Data.db",
        "NB-1-big-Data.db",
        "oa-3gtn_0w2g_0mkjk2ttp0ueyhbnc-big-Data.db",
        "oa-3gtn_0w2g-0mkjk2ttp0ueyhbnc4-big-Data.db",
        "oa-3gtn00w2g_0mkjk2ttp0ueyhbnc4-big-Data.db",
        "oa-1-big-Statistics.db.tmp",
        "ks-table-ka-1-Data.db",
        "oa-1-big-Data.db\u{1F}-",
    ] {
        let parsed = Descriptor::parse(name);
        assert!(matches!(parsed, Err(Error::Unsupported(_))), "{name}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
