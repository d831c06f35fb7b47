// Writes SSTables with RocksDB's Java API:
//
//     java -cp rocksdbjni.jar Tables.java <directory> < specifications
//
// A specification is a line: a name, then option=value pairs. For each line the program writes the
// SSTable <name>.sst, and <name>.keys with its user keys in hexadecimal, in the engine's order.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.rocksdb.*;

public class Tables {
    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        Path directory = Path.of(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Map<String, String> options = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=");
                options.put(pair[0], pair[1]);
            }
            write(directory, words[0], options);
        }
    }

    static long number(Map<String, String> options, String name, long otherwise) {
        return Long.parseLong(options.getOrDefault(name, Long.toString(otherwise)));
    }

    static void write(Path directory, String name, Map<String, String> given) throws Exception {
        BlockBasedTableConfig table = new BlockBasedTableConfig()
            .setFormatVersion((int) number(given, "format_version", 6))
            .setIndexType(IndexType.valueOf(given.getOrDefault("index_type", "kBinarySearch")))
            .setChecksumType(ChecksumType.valueOf(given.getOrDefault("checksum", "kXXH3")))
            .setIndexShortening(IndexShorteningMode.valueOf(
                given.getOrDefault("shortening", "kShortenSeparators")))
            .setBlockSize(number(given, "block_size", 512))
            .setMetadataBlockSize(number(given, "metadata_block_size", 512))
            .setIndexBlockRestartInterval((int) number(given, "index_restart_interval", 1))
            .setBlockAlign(number(given, "block_align", 0) == 1)
            .setSuperBlockAlignmentSize(number(given, "super_block_alignment", 0))
            .setSeparateKeyValueInDataBlock(number(given, "separate_key_value", 0) == 1);
        if (given.containsKey("uniform")) {
            table.setUniformCvThreshold(Double.parseDouble(given.get("uniform")));
        }
        if (number(given, "filter", 0) == 1) {
            table.setFilterPolicy(new BloomFilter(10)).setPartitionFilters(
                "kTwoLevelIndexSearch".equals(given.get("index_type")));
        }
        Options options = new Options()
            .setCreateIfMissing(true)
            .setCompressionType(CompressionType.valueOf(
                given.getOrDefault("compression", "NO_COMPRESSION")))
            .useFixedLengthPrefixExtractor(2)
            .setTableFormatConfig(table);
        String order = given.getOrDefault("order", "engine");
        if (order.equals("engine-reverse")) {
            options.setComparator(BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR);
        } else if (!order.equals("engine")) {
            options.setComparator(new Own(order));
        }
        Path path = directory.resolve(name + ".db");
        List<Snapshot> snapshots = new ArrayList<>();
        try (RocksDB db = RocksDB.open(options, path.toString())) {
            Random random = new Random(number(given, "seed", 1));
            long keys = number(given, "keys", 2000);
            long versions = number(given, "versions", 1);
            for (long i = 0; i < keys; i++) {
                byte[] key = key(random, i);
                long times = i % 50 == 0 ? versions : 1;
                for (long version = 0; version < times; version++) {
                    byte[] value = new byte[random.nextInt(80)];
                    random.nextBytes(value);
                    db.put(key, value);
                    if (times > 1) {
                        // A snapshot sees this version, so the engine must keep it.
                        snapshots.add(db.getSnapshot());
                    }
                }
            }
            if (keys == 0) {
                db.deleteRange(new byte[] {1}, new byte[] {2});
            }
            db.flush(new FlushOptions().setWaitForFlush(true));
            LiveFileMetaData file = db.getLiveFilesMetaData().get(0);
            Path written = Path.of(file.path(), file.fileName().replaceFirst("^/", ""));
            Files.copy(written, directory.resolve(name + ".sst"));
            for (Snapshot snapshot : snapshots) {
                db.releaseSnapshot(snapshot);
            }
        }
        try (SstFileReader reader = new SstFileReader(options);
             PrintWriter out = new PrintWriter(directory.resolve(name + ".keys").toFile())) {
            reader.open(directory.resolve(name + ".sst").toString());
            SstFileReaderIterator iterator = reader.newIterator(new ReadOptions().setTotalOrderSeek(true));
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                out.println(HexFormat.of().formatHex(iterator.key()));
            }
            iterator.status();
            iterator.close();
        }
    }

    // A comparator of an application: "bytewise", "reverse", or by "length" first. Its name does not tell.
    static class Own extends AbstractComparator {
        final String order;

        Own(String order) {
            super(new ComparatorOptions());
            this.order = order;
        }

        @Override
        public String name() {
            // The constructor above asks before there is an order.
            return "tests.Own";
        }

        @Override
        public int compare(ByteBuffer one, ByteBuffer other) {
            if (order.equals("length") && one.remaining() != other.remaining()) {
                return Integer.compare(one.remaining(), other.remaining());
            }
            int at = one.mismatch(other);
            int compared = 0;
            if (at >= 0) {
                boolean ends = at == one.remaining() || at == other.remaining();
                compared = ends ? Integer.compare(one.remaining(), other.remaining())
                    : Integer.compare(one.get(one.position() + at) & 0xff, other.get(other.position() + at) & 0xff);
            }
            return order.equals("reverse") ? -compared : compared;
        }
    }

    // Keys of all lengths, with long common prefixes and with none, with the bytes 00 and ff.
    static byte[] key(Random random, long i) {
        if (i == 1) {
            return new byte[0];
        }
        switch (random.nextInt(4)) {
            case 0:
                byte[] bytes = new byte[1 + random.nextInt(30)];
                random.nextBytes(bytes);
                return bytes;
            case 1:
                byte[] last = new byte[random.nextInt(30)];
                java.util.Arrays.fill(last, (byte) 0xff);
                return last;
            default:
                return String.format("a-common-prefix-%08d", random.nextInt(100_000)).getBytes();
        }
    }
}
