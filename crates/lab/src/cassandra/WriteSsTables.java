import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;

/**
 * Writes a data set as SSTables, with Cassandra's own writer and without a node.
 *
 * Arguments: directory; number of SSTables; number of keys; bytes of a value; CREATE TABLE; INSERT.
 * Key k goes into SSTable (k mod number), in a directory of its own. Its value is a function of k;
 * values.rs has the same function.
 */
public class WriteSsTables
{
    public static void main(String[] words) throws Exception
    {
        int sstables = Integer.parseInt(words[1]);
        int keys = Integer.parseInt(words[2]);
        int valueBytes = Integer.parseInt(words[3]);
        for (int sstable = 0; sstable < sstables; sstable++)
        {
            File directory = new File(words[0], Integer.toString(sstable));
            directory.mkdirs();
            CQLSSTableWriter writer = CQLSSTableWriter.builder()
                                                      .inDirectory(directory.getPath())
                                                      .forTable(words[4])
                                                      .using(words[5])
                                                      .sorted()
                                                      .build();
            long[][] byToken = new long[(keys - sstable + sstables - 1) / sstables][];
            for (int i = 0; i < byToken.length; i++)
            {
                long key = sstable + (long) i * sstables;
                ByteBuffer bytes = LongType.instance.decompose(key);
                long token = (long) Murmur3Partitioner.instance.getToken(bytes).getTokenValue();
                byToken[i] = new long[]{ token, key };
            }
            Arrays.sort(byToken, (left, right) -> Long.compare(left[0], right[0]));
            for (long[] entry : byToken)
                writer.addRow(entry[1], value(entry[1], valueBytes));
            writer.close();
        }
        // The writer's threads would keep the process alive.
        System.exit(0);
    }

    /** Incompressible bytes: SplitMix64 (Steele, Lea, Flood 2014), little-endian. */
    private static ByteBuffer value(long key, int bytes)
    {
        ByteBuffer value = ByteBuffer.allocate((bytes + 7) / 8 * 8).order(ByteOrder.LITTLE_ENDIAN);
        long state = key;
        while (value.hasRemaining())
        {
            state += 0x9e3779b97f4a7c15L;
            long mixed = state;
            mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
            mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
            value.putLong(mixed ^ (mixed >>> 31));
        }
        value.flip().limit(bytes);
        return value.order(ByteOrder.BIG_ENDIAN);
    }
}
