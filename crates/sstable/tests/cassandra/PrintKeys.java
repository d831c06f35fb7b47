// Prints partition keys for the tests of the readers. Behind each key come its byte-comparable form
// and the lowest bits of its filter hash, as Cassandra (5.0 or later) computes them.

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Random;

import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.utils.bytecomparable.ByteComparable;
import org.apache.cassandra.utils.bytecomparable.ByteSource;

public class PrintKeys
{
    public static void main(String[] arguments)
    {
        Random random = new Random(41);
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out));
        for (int i = 0; i < 3000; i++)
        {
            byte[] key = i < 256 ? new byte[] { (byte) i } : key(random, 1 + i % 70);
            DecoratedKey decorated = Murmur3Partitioner.instance.decorateKey(ByteBuffer.wrap(key));
            StringBuilder form = new StringBuilder();
            ByteSource source = decorated.asComparableBytes(ByteComparable.Version.OSS50);
            for (int b = source.next(); b != ByteSource.END_OF_STREAM; b = source.next())
                form.append(String.format("%02x", b));
            out.println(hex(key) + " " + form + " " + String.format("%02x", decorated.filterHashLowerBits() & 0xff));
        }
        out.flush();
        System.exit(0);
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

    private static String hex(byte[] bytes)
    {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes)
            text.append(String.format("%02x", b));
        return text.toString();
    }
}
