import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** Puts in batches through jetcd; ../README.md says what is read and printed. */
public class Puts {
    /** jetcd takes no deadline for a call: each call is given one on its way out. */
    static final class Deadlines implements ClientInterceptor {
        volatile int leastMs = 500;
        volatile int mostMs = 800;

        @Override
        public <A, B> ClientCall<A, B> interceptCall(
                MethodDescriptor<A, B> method, CallOptions options, Channel next) {
            int ms = ThreadLocalRandom.current().nextInt(leastMs, mostMs + 1);
            return next.newCall(method, options.withDeadlineAfter(ms, TimeUnit.MILLISECONDS));
        }
    }

    public static void main(String[] args) throws Exception {
        Deadlines deadlines = new Deadlines();
        try (Client client =
                Client.builder().endpoints(args[0].split(",")).interceptor(deadlines).build()) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = lines.readLine()) != null; ) {
                String[] words = line.split(" ");
                deadlines.leastMs = Integer.parseInt(words[3]);
                deadlines.mostMs = Integer.parseInt(words[4]);
                batch(client, words[0], Integer.parseInt(words[1]), Integer.parseInt(words[2]))
                        .forEach((outcome, times) -> System.out.println(times + "\t" + outcome));
                System.out.println();
                System.out.flush();
            }
        }
    }

    /** Puts {@code count} keys, each at a moment of its own, and counts how the calls ended. */
    static Map<String, Integer> batch(Client client, String prefix, int count, int spreadMs) {
        Map<String, Integer> outcomes = new TreeMap<>();
        IntStream.range(0, count)
                .mapToObj(number -> put(client, prefix + number, spreadMs))
                .toList()
                .forEach(put -> outcomes.merge(put.join(), 1, Integer::sum));
        return outcomes;
    }

    static CompletableFuture<String> put(Client client, String key, int spreadMs) {
        int afterMs = ThreadLocalRandom.current().nextInt(spreadMs + 1);
        Executor later = CompletableFuture.delayedExecutor(afterMs, TimeUnit.MILLISECONDS);
        return CompletableFuture.supplyAsync(() -> client.getKVClient().put(bytes(key), bytes("v")), later)
                .thenCompose(put -> put)
                .handle((done, error) -> error == null ? "ok" : told(error));
    }

    /** The error without what is different each time. */
    static String told(Throwable error) {
        return error.getMessage()
                .replace('\n', ' ')
                .replaceAll("(eadline exceeded after|started after CallOptions deadline|will be exceeded in).*", "$1 ...");
    }

    static ByteSequence bytes(String text) {
        return ByteSequence.from(text.getBytes());
    }
}
