import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.Map;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.ConcurrentHistogram;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.state.rocksdb.ConfigurableRocksDBOptionsFactory;
import org.apache.flink.state.rocksdb.RocksDBOptionsFactory;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;

/**
 * A job of Apache Flink in one process, with its state in RocksDB as Flink configures it. It stores each key once. Then
 * it reads hot keys at a fixed rate, and updates all keys in the phase {@code COMPACTION}. It checks each value it reads.
 *
 * <p>{@code scripts/measure-flink} starts it. It prints the name of each phase when it begins, and in the end one line of
 * JSON for each. Then it waits for a line of input, so that the process can be asked for its counters.
 */
public final class FlinkJob {
    /** What the job does, one after the other. */
    enum Phase {
        LOAD,
        WARM_UP,
        IDLE,
        COMPACTION,
        AFTER
    }

    private static final int READ = 0;
    private static final int UPDATE = 1;
    private static final int VALUE_BYTES = 1_000;

    /** How long each read took, in ns. */
    private static final Map<Phase, ConcurrentHistogram> SERVICE_TIMES = new EnumMap<>(Phase.class);

    /** The version of each key's last value. Only the thread that has the state uses it. */
    private static int[] versions;

    private FlinkJob() {}

    public static void main(String[] arguments) throws Exception {
        Options options = new Options(arguments);
        versions = new int[options.number("keys")];
        for (Phase phase : Phase.values()) {
            SERVICE_TIMES.put(phase, new ConcurrentHistogram(3));
        }
        Source source = new Source(options);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, options.configuration());
        environment
                .fromSequence(0, source.ticks() - 1)
                .flatMap(source)
                .returns(new TypeHint<Tuple3<Integer, Integer, Integer>>() {})
                .keyBy(work -> work.f0)
                .process(new State());
        environment.execute();
        SERVICE_TIMES.forEach((phase, times) -> System.out.printf(
                "{\"phase\": \"%s\", \"reads\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f}%n",
                phase,
                times.getTotalCount(),
                times.getValueAtPercentile(50) / 1e3,
                times.getValueAtPercentile(99) / 1e3,
                times.getValueAtPercentile(99.9) / 1e3));
        System.in.read();
    }

    /** Arguments of the form {@code name=value}. */
    private static final class Options {
        private final String[] arguments;

        Options(String[] arguments) {
            this.arguments = arguments;
        }

        String text(String name) {
            return Arrays.stream(arguments)
                    .filter(argument -> argument.startsWith(name + "="))
                    .findFirst()
                    .orElseThrow(() -> new IllegalArgumentException("missing: " + name + "=VALUE"))
                    .substring(name.length() + 1);
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }

        /** Flink's defaults, but for memory and paths. */
        Configuration configuration() {
            Path directory = Path.of(text("directory"));
            Configuration configuration = new Configuration();
            configuration.setString("state.backend.type", "rocksdb");
            configuration.setString("state.backend.rocksdb.localdir", directory.resolve("state").toString());
            configuration.setString("state.backend.rocksdb.log.dir", directory.resolve("log").toString());
            configuration.setString("execution.checkpointing.dir", directory.resolve("checkpoints").toUri().toString());
            configuration.setString("execution.checkpointing.incremental", "true");
            configuration.setString("execution.checkpointing.interval", text("checkpoint-seconds") + " s");
            configuration.setString("execution.buffer-timeout.interval", "1 ms");
            configuration.setString("taskmanager.memory.managed.size", text("managed-mib") + "m");
            configuration.setString("taskmanager.memory.network.min", "8m");
            configuration.setString("taskmanager.memory.network.max", "8m");
            if (text("direct").equals("yes")) {
                configuration.setString("state.backend.rocksdb.options-factory", DirectIo.class.getName());
            }
            return configuration;
        }
    }

    /** Says what to do with which key, and when. */
    private static final class Source implements FlatMapFunction<Long, Tuple3<Integer, Integer, Integer>> {
        private final int keys;
        private final int hotKeys;
        private final int readsPerSecond;
        private final double updatesPerRead;

        /** How long each phase lasts. */
        private final int[] seconds;

        private final Random random = new Random(1);
        private Phase phase;
        private long startNanoseconds;
        private double updatesOwed;

        Source(Options options) {
            keys = options.number("keys");
            hotKeys = options.number("hot-keys");
            readsPerSecond = options.number("reads-per-second");
            updatesPerRead = (double) options.number("updates-per-second") / readsPerSecond;
            seconds = new int[] {
                0,
                options.number("warm-up-seconds"),
                options.number("idle-seconds"),
                options.number("compaction-seconds"),
                options.number("after-seconds")
            };
        }

        /** One for each key that is stored, and one for each read. */
        long ticks() {
            return keys + (long) Arrays.stream(seconds).sum() * readsPerSecond;
        }

        @Override
        public void flatMap(Long tick, Collector<Tuple3<Integer, Integer, Integer>> out) {
            if (tick < keys) {
                enter(Phase.LOAD);
                out.collect(Tuple3.of(tick.intValue(), UPDATE, phase.ordinal()));
                return;
            }
            long read = tick - keys;
            if (read == 0) {
                startNanoseconds = System.nanoTime();
            }
            enter(phaseAt(read / readsPerSecond));
            waitUntil(startNanoseconds + read * 1_000_000_000L / readsPerSecond);
            // The hot keys lie evenly among all.
            int hot = (int) ((long) random.nextInt(hotKeys) * keys / hotKeys);
            out.collect(Tuple3.of(hot, READ, phase.ordinal()));
            if (phase == Phase.COMPACTION) {
                for (updatesOwed += updatesPerRead; updatesOwed >= 1; updatesOwed--) {
                    out.collect(Tuple3.of(random.nextInt(keys), UPDATE, phase.ordinal()));
                }
            }
        }

        private void enter(Phase next) {
            if (next != phase) {
                phase = next;
                System.out.println(next);
            }
        }

        private Phase phaseAt(long second) {
            int place = 0;
            while (second >= seconds[place]) {
                second -= seconds[place++];
            }
            return Phase.values()[place];
        }

        private static void waitUntil(long nanoseconds) {
            long left;
            while ((left = nanoseconds - System.nanoTime()) > 0) {
                LockSupport.parkNanos(left);
            }
        }
    }

    /** Has the keys' values, and times the reads. */
    private static final class State extends KeyedProcessFunction<Integer, Tuple3<Integer, Integer, Integer>, Void> {
        private transient ValueState<byte[]> values;

        @Override
        public void open(OpenContext context) {
            values = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("value", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        }

        @Override
        public void processElement(Tuple3<Integer, Integer, Integer> work, Context context, Collector<Void> out)
                throws Exception {
            int key = work.f0;
            if (work.f1 == UPDATE) {
                values.update(value(key, ++versions[key]));
                return;
            }
            long start = System.nanoTime();
            byte[] found = values.value();
            long nanoseconds = System.nanoTime() - start;
            SERVICE_TIMES.get(Phase.values()[work.f2]).recordValue(nanoseconds);
            if (!Arrays.equals(found, value(key, versions[key]))) {
                throw new IllegalStateException("key " + key + " has another value than its version " + versions[key]);
            }
        }

        private static byte[] value(int key, int version) {
            byte[] bytes = new byte[VALUE_BYTES];
            new SplittableRandom(((long) key << 32) + version).nextBytes(bytes);
            return bytes;
        }
    }

    /** RocksDB's own direct I/O, which no option of Flink's configuration switches on. */
    public static final class DirectIo implements ConfigurableRocksDBOptionsFactory {
        @Override
        public DBOptions createDBOptions(DBOptions options, Collection<AutoCloseable> handles) {
            return options.setUseDirectReads(true).setUseDirectIoForFlushAndCompaction(true);
        }

        @Override
        public ColumnFamilyOptions createColumnOptions(ColumnFamilyOptions options, Collection<AutoCloseable> handles) {
            return options;
        }

        @Override
        public RocksDBOptionsFactory configure(ReadableConfig configuration) {
            return this;
        }
    }
}
