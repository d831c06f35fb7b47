import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CountDownLatch;

/**
 * A database in small, in Java: Matrix DIRECTORY. The twin of matrix.c, with the names of Cassandra's threads and
 * files.
 */
public class Matrix {
    static final int RECORD = 4118;
    static final int RECORDS = 300;
    static final int SIZE = RECORD * RECORDS;
    static Path directory;

    static Path table(int number) {
        return directory.resolve("nb-" + number + "-big-Data.db");
    }

    static byte byteOf(int number, int offset) {
        return (byte) ((offset * 0x9E3779B1 + number * 40503) >>> 11);
    }

    static int wrong(ByteBuffer bytes, int number, int offset) {
        int wrong = 0;
        for (int at = 0; bytes.hasRemaining(); at++) {
            wrong += bytes.get() != byteOf(number, offset + at) ? 1 : 0;
        }
        return wrong;
    }

    static ByteBuffer record(int number, int offset) {
        ByteBuffer bytes = ByteBuffer.allocateDirect(RECORD);
        for (int at = 0; at < RECORD; at++) {
            bytes.put(byteOf(number, offset + at));
        }
        return bytes.flip();
    }

    static void say(String what, Object result) {
        System.out.println(what + " " + result);
    }

    interface Task {
        void run() throws Exception;
    }

    static Thread start(String name, Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (Exception exception) {
                exception.printStackTrace();
                System.exit(1);
            }
        }, name);
        thread.start();
        return thread;
    }

    static int append(FileChannel channel, int number, int records) throws IOException {
        int wrong = 0;
        for (int count = 1; count <= records; count++) {
            int end = (int) channel.position();
            ByteBuffer bytes = record(number, end);
            while (bytes.hasRemaining()) {
                channel.write(bytes);
            }
            if (count % 64 == 0) {
                wrong += channel.size() != end + RECORD ? 1 : 0;
            }
        }
        return wrong;
    }

    static FileChannel create(int number) throws IOException {
        return FileChannel.open(table(number), StandardOpenOption.WRITE, StandardOpenOption.READ,
                StandardOpenOption.CREATE_NEW);
    }

    static void flush() throws Exception {
        for (int number = 1; number <= 3; number++) {
            try (FileChannel channel = create(number)) {
                say("flushed, wrong", append(channel, number, RECORDS));
                channel.force(number == 1);
            }
        }
    }

    static int scan(int number) throws IOException {
        int wrong = 0;
        try (FileChannel channel = FileChannel.open(table(number), StandardOpenOption.READ)) {
            ByteBuffer bytes = ByteBuffer.allocateDirect(16 << 10);
            int offset = 0;
            for (int count; (count = channel.read(bytes.clear(), offset)) > 0; offset += count) {
                wrong += wrong(bytes.flip(), number, offset);
            }
            return wrong + (int) channel.size() - offset;
        }
    }

    static void readInTheForeground() throws Exception {
        say("scan", scan(1) + scan(2) + scan(3));
        try (FileChannel channel = FileChannel.open(table(1), StandardOpenOption.READ)) {
            say("mapped", wrong(channel.map(FileChannel.MapMode.READ_ONLY, 0, SIZE), 1, 0));
        }
        try (FileInputStream stream = new FileInputStream(table(2).toFile())) {
            say("stream", wrong(ByteBuffer.wrap(stream.readAllBytes()), 2, 0));
        }
        try (RandomAccessFile file = new RandomAccessFile(table(3).toFile(), "r")) {
            byte[] bytes = new byte[RECORD];
            file.seek(7 * RECORD);
            file.readFully(bytes);
            say("random access", wrong(ByteBuffer.wrap(bytes), 3, 7 * RECORD));
        }
        try (AsynchronousFileChannel channel = AsynchronousFileChannel.open(table(1))) {
            ByteBuffer bytes = ByteBuffer.allocate(RECORD);
            say("asynchronous", channel.read(bytes, RECORD).get());
            say("wrong", wrong(bytes.flip(), 1, RECORD));
        }
    }

    static final CountDownLatch grown = new CountDownLatch(1);
    static final CountDownLatch seen = new CountDownLatch(1);

    static void compact() throws Exception {
        Path temporary = directory.resolve("nb-10-big-Data.db.tmp");
        try (FileChannel channel = create(10)) {
            for (int number = 1; number <= 3; number++) {
                say("input", scan(number));
                say("output, wrong", append(channel, 10, 150));
                if (number == 1) {
                    grown.countDown();
                    seen.await();
                }
                channel.force(false);
            }
            Files.move(table(10), temporary);
            append(channel, 10, 10);
            channel.truncate(455 * RECORD);
            channel.position(channel.size());
            append(channel, 10, 5);
            say("child", child("cksum < " + temporary));
        }
        Files.move(temporary, table(10), StandardCopyOption.ATOMIC_MOVE);
        say("output", scan(10));
        try (FileChannel from = FileChannel.open(table(10), StandardOpenOption.READ); FileChannel to = create(11)) {
            say("transferred", from.transferTo(0, from.size(), to));
        }
        Files.copy(table(1), table(12));
        Files.move(table(2), table(3), StandardCopyOption.REPLACE_EXISTING);
        Files.delete(table(1));
    }

    static String child(String line) throws Exception {
        Process process = new ProcessBuilder("sh", "-c", line).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes()).trim();
        return said + " " + process.waitFor();
    }

    static void readBesideTheCompaction() throws Exception {
        grown.await();
        try (FileChannel channel = FileChannel.open(table(10), StandardOpenOption.READ)) {
            ByteBuffer bytes = ByteBuffer.allocate(RECORD);
            say("early open", channel.size());
            say("read", channel.read(bytes, 149 * RECORD));
            say("wrong", wrong(bytes.flip(), 10, 149 * RECORD));
        }
        seen.countDown();
    }

    public static void main(String[] words) throws Exception {
        directory = Path.of(words[0]);
        start("MemtableFlushWriter:1", Matrix::flush).join();
        // The library reads a file in windows if it has been unchanged for 20 ms.
        Thread.sleep(30);
        readInTheForeground();
        Thread compaction = start("CompactionExecutor:1", Matrix::compact);
        readBesideTheCompaction();
        compaction.join();
        start("CompactionExecutor:2", () -> {
            FileChannel open = create(20);
            append(open, 20, 33);
            say("size", open.size());
        }).join();
        System.gc();
        say("end", 0);
    }
}
