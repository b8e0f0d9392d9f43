import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;

/** Curator's own locks, told what to do line by line: "acquire mutex /a/b 100", "release semaphore2 /a/b". */
public class Contender {

    private final CuratorFramework client;
    private final Map<String, InterProcessLock> locks = new HashMap<>();

    private Contender(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] words) throws Exception {
        int session = Integer.parseInt(words[1]);
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(
                        words[0], session, session, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            Contender contender = new Contender(client);
            System.out.println("ready");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(contender.answer(line.split(" ")));
            }
        }
    }

    private String answer(String[] words) throws Exception {
        InterProcessLock lock = locks.computeIfAbsent(words[1] + words[2], it -> lock(words[1], words[2]));
        if (words[0].equals("release")) {
            lock.release();
            return "released";
        }
        return lock.acquire(Long.parseLong(words[3]), TimeUnit.MILLISECONDS) ? "acquired" : "busy";
    }

    private InterProcessLock lock(String kind, String path) {
        if (kind.equals("mutex")) {
            return new InterProcessMutex(client, path);
        }
        if (kind.equals("one-permit")) {
            return new InterProcessSemaphoreMutex(client, path);
        }
        if (kind.startsWith("semaphore")) {
            int permits = Integer.parseInt(kind.substring("semaphore".length()));
            return new Permits(new InterProcessSemaphoreV2(client, path, permits));
        }
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        return kind.equals("read") ? both.readLock() : both.writeLock();
    }

    /** A semaphore that is taken and given back like a lock, permit by permit. */
    private static final class Permits implements InterProcessLock {
        private final InterProcessSemaphoreV2 semaphore;
        private final Deque<Lease> held = new ArrayDeque<>();

        private Permits(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public void acquire() throws Exception {
            held.push(semaphore.acquire());
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            Lease lease = semaphore.acquire(time, unit);
            if (lease != null) {
                held.push(lease);
            }
            return lease != null;
        }

        @Override
        public void release() {
            semaphore.returnLease(held.pop());
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return !held.isEmpty();
        }
    }
}
