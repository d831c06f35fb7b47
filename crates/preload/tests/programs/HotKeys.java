// RocksDB's Java package reads hot keys and compacts, as `hot_keys compact` does through the C API:
//
//     java -cp rocksdbjni.jar HotKeys.java KEYS STRIDE RUN_LENGTH TIMES DIRECTORY...
//
// Each directory has a thread. RocksDB's own threads compact all databases.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

public class HotKeys {
    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        long keys = Long.parseLong(arguments[0]);
        long stride = Long.parseLong(arguments[1]);
        long runLength = Long.parseLong(arguments[2]);
        long times = Long.parseLong(arguments[3]);
        List<Callable<Void>> uses = new ArrayList<>();
        for (int at = 4; at < arguments.length; at++) {
            String directory = arguments[at];
            uses.add(() -> use(directory, keys, stride, runLength, times));
        }
        ExecutorService threads = Executors.newFixedThreadPool(uses.size());
        for (Future<Void> used : threads.invokeAll(uses)) {
            used.get();
        }
        threads.shutdown();
    }

    static Void use(String directory, long keys, long stride, long runLength, long times)
            throws Exception {
        BlockBasedTableConfig table = new BlockBasedTableConfig().setNoBlockCache(true);
        try (Options options = new Options()
                        .setDisableAutoCompactions(true)
                        .setTargetFileSizeBase(16 << 20)
                        .setTableFormatConfig(table);
                CompactRangeOptions everything = new CompactRangeOptions()
                        .setBottommostLevelCompaction(BottommostLevelCompaction.kForce);
                RocksDB database = RocksDB.open(options, directory)) {
            for (long time = 0; time < times; time++) {
                for (long turn = 0; turn < keys; turn++) {
                    // Not in key order, which would be a scan.
                    long number = turn * 7919 % keys;
                    if (number % stride < runLength) {
                        byte[] value = database.get(String.format("key%013d", number).getBytes());
                        if (value == null) {
                            throw new IllegalStateException("key " + number + " is missing");
                        }
                    }
                }
            }
            database.compactRange(null, null, null, everything);
        }
        return null;
    }
}
