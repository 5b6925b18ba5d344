// Publish changes through `rspub relay`: all of them, in order, each once.
//
//     java Publish.java http://localhost:8091/ < changes.txt
//
// Each line is an id, a change and a URL. The id stays the same when the line is sent again: it
// may be the number of its row in your database.
//
//     42 updated https://example.org/books/1
//
// If the relay, the network or this program breaks, run it again with the same lines: the relay
// remembers each id for 72 hours, and publishes nothing twice. The environment variable
// RELAY_TOKEN has the token, if the relay needs one. Java 11 or later.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

public class Publish {
    static final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    // publish returns the relay's answer, which is JSON, when the change is on its disk, however
    // long that takes. IllegalArgumentException: sending it again does not help.
    static String publish(URI relay, String key, String change, String url) throws InterruptedException {
        String form = "change=" + URLEncoder.encode(change, StandardCharsets.UTF_8)
            + "&url=" + URLEncoder.encode(url, StandardCharsets.UTF_8);
        HttpRequest.Builder request = HttpRequest.newBuilder(relay)
            .timeout(Duration.ofSeconds(60))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Idempotency-Key", key)
            .POST(HttpRequest.BodyPublishers.ofString(form));
        String token = System.getenv("RELAY_TOKEN");
        if (token != null && !token.isEmpty()) {
            request.header("Authorization", "Bearer " + token);
        }
        for (long wait = 100; ; wait = Math.min(2 * wait, 30_000)) {
            String why;
            try {
                HttpResponse<String> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() == 200) {
                    return answer.body().strip();
                }
                if (answer.statusCode() < 500) {
                    throw new IllegalArgumentException(answer.body().strip());
                }
                why = "the relay answers " + answer.statusCode();
            } catch (IOException e) {
                why = e.toString(); // perhaps it was recorded, and only the answer is lost
            }
            System.err.println("waiting for the relay: " + why);
            Thread.sleep(wait);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ", 3);
            System.out.println(words[0] + " " + publish(URI.create(args[0]), words[0], words[1], words[2]));
        }
    }
}
