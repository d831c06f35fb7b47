import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.cassandra.tools.INodeProbeFactory;
import org.apache.cassandra.tools.NodeProbe;
import org.apache.cassandra.tools.NodeTool;
import org.apache.cassandra.tools.Output;

/**
 * Runs nodetool commands in sequence, in one virtual machine. A virtual machine for each command would cost seconds
 * of CPU time, and disturb measurements.
 *
 * Standard input: one command a line, with its words separated by U+001F. Standard output, for each command: exit code,
 * length of its output, length of its errors (big-endian, 32 bits), output, errors.
 */
public class NodeCommands
{
    public static void main(String[] unused) throws Exception
    {
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        // One stream of each kind for all commands. Some print to System.out, and those of 6.0 keep the standard
        // output of the first command (Output.CONSOLE).
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        PrintStream outputText = new PrintStream(output, true, StandardCharsets.UTF_8);
        PrintStream errorText = new PrintStream(errors, true, StandardCharsets.UTF_8);
        System.setOut(outputText);
        for (String line = commands.readLine(); line != null; line = commands.readLine())
        {
            output.reset();
            errors.reset();
            int code;
            try
            {
                code = new NodeTool(new Probes(), new Output(outputText, errorText))
                           .execute(line.split("\u001f"));
            }
            catch (Throwable thrown)
            {
                code = 255;
                thrown.printStackTrace(errorText);
            }
            answers.writeInt(code);
            answers.writeInt(output.size());
            answers.writeInt(errors.size());
            output.writeTo(answers);
            errors.writeTo(answers);
            answers.flush();
        }
    }

    /** Like nodetool's own factory, which is not public. */
    private static class Probes implements INodeProbeFactory
    {
        public NodeProbe create(String host, int port) throws IOException
        {
            return new NodeProbe(host, port);
        }

        public NodeProbe create(String host, int port, String user, String password) throws IOException
        {
            return new NodeProbe(host, port, user, password);
        }
    }
}
