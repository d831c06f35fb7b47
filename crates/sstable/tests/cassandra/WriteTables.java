// Writes SSTables with Cassandra's own writer, for the tests of the readers. No node is needed.
//
// Arguments: the directory, and optionally a number of partitions. Each CQL table gets a
// subdirectory. With a number only one CQL table with that number of partitions is written. With
// `merged` behind it, three SSTables of a CQL table are written: one with every other partition, one
// with the rest, and one with all. The configuration (-Dcassandra.config) selects the format.

import java.io.File;
import java.nio.ByteBuffer;
import java.util.Random;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;

public class WriteTables
{
    private static final String LZ4_16_KIB = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}";
    private static final String LZ4_4_KIB = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}";
    private static final String NONE = "{'enabled': 'false'}";

    public static void main(String[] arguments) throws Exception
    {
        File directory = new File(arguments[0]);
        DatabaseDescriptor.toolInitialization(false);
        if (arguments.length > 2)
            writeMerged(directory, Integer.parseInt(arguments[1]));
        else if (arguments.length > 1)
            writeSmall(directory, "large", LZ4_16_KIB, Integer.parseInt(arguments[1]));
        else
            writeAll(directory);
        // Cassandra's threads would keep the process alive.
        System.exit(0);
    }

    private static void writeAll(File directory) throws Exception
    {
        writeSmall(directory, "small", LZ4_16_KIB, 20000);
        writeWide(directory, "wide", LZ4_4_KIB);
        writeWide(directory, "widenone", NONE);
        writeBlobs(directory, "blobs", NONE);
        writeComposite(directory, "composite", LZ4_4_KIB);
    }

    private static void writeSmall(File directory, String name, String compression, int count) throws Exception
    {
        try (CQLSSTableWriter writer = writer(directory, name, "k text PRIMARY KEY, v text", "k, v", compression))
        {
            Random random = new Random(42);
            for (int i = 0; i < count; i++)
                writer.addRow(String.format("key%08d", i), text(random, 100));
        }
    }

    /** As before and after a compaction. The CQL tables `t` and `tnone` differ in their compression. */
    private static void writeMerged(File directory, int count) throws Exception
    {
        String[] names = { "first", "second", "output" };
        for (int part = 0; part < names.length; part++)
        {
            File own = new File(directory, names[part] + "/ks");
            for (String table : new String[] { "t", "tnone" })
            {
                String compression = table.equals("t") ? LZ4_16_KIB : NONE;
                try (CQLSSTableWriter writer = writer(own, table, "k text PRIMARY KEY, v text", "k, v", compression))
                {
                    for (int i = part == 1 ? 1 : 0; i < count; i += part < 2 ? 2 : 1)
                        writer.addRow(String.format("key%08d", i), text(new Random(i), 100));
                }
            }
        }
    }

    /** Partitions with a static column and clustering, of up to 2000 rows. */
    private static void writeWide(File directory, String name, String compression) throws Exception
    {
        String columns = "k bigint, c int, s text static, v text, PRIMARY KEY (k, c)";
        try (CQLSSTableWriter writer = writer(directory, name, columns, "k, c, s, v", compression))
        {
            Random random = new Random(43);
            for (long k = 0; k < 300; k++)
            {
                int rows = k % 10 == 0 ? 2000 : 1 + random.nextInt(40);
                for (int c = 0; c < rows; c++)
                    writer.addRow(k * 0x123456789L, c, "static" + k, text(random, 80));
            }
        }
    }

    /** Keys of all lengths, with runs of zeroes. */
    private static void writeBlobs(File directory, String name, String compression) throws Exception
    {
        try (CQLSSTableWriter writer = writer(directory, name, "k blob PRIMARY KEY, v text", "k, v", compression))
        {
            Random random = new Random(44);
            for (int i = 0; i < 3000; i++)
                writer.addRow(ByteBuffer.wrap(key(random, i == 7 ? 65535 : 4 + i)), text(random, 10));
        }
    }

    private static void writeComposite(File directory, String name, String compression) throws Exception
    {
        String columns = "a text, b int, v text, PRIMARY KEY ((a, b))";
        try (CQLSSTableWriter writer = writer(directory, name, columns, "a, b, v", compression))
        {
            Random random = new Random(45);
            for (int i = 0; i < 2000; i++)
                writer.addRow("a" + i / 10, i, text(random, 500));
        }
    }

    private static CQLSSTableWriter writer(File directory, String name, String columns, String inserted, String compression)
    {
        File own = new File(directory, name);
        own.mkdirs();
        return CQLSSTableWriter.builder()
            .inDirectory(own.getPath())
            .forTable("CREATE TABLE ks." + name + " (" + columns + ") WITH compression = " + compression)
            .using("INSERT INTO ks." + name + " (" + inserted + ") VALUES (" + inserted.replaceAll("\\w+", "?") + ")")
            .build();
    }

    /** Random bytes. Many are zero. */
    private static byte[] key(Random random, int length)
    {
        byte[] key = new byte[length];
        random.nextBytes(key);
        for (int i = 0; i < length; i++)
            if (random.nextInt(3) == 0)
                key[i] = 0;
        return key;
    }

    private static String text(Random random, int length)
    {
        StringBuilder text = new StringBuilder();
        while (text.length() < length)
            text.append(Long.toString(random.nextLong() >>> 1, 36)).append("          ");
        return text.substring(0, length);
    }
}
