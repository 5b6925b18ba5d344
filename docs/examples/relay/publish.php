<?php
// Publish changes through `rspub relay`: all of them, in order, each once.
//
//     php publish.php http://localhost:8091/ < changes.jsonl
//
// Each line is a change, with an id that stays the same when the line is sent again, such as the
// number of its row in your database:
//
//     {"id": "42", "change": "updated", "url": "https://example.org/books/1"}
//
// If the relay, the network or this program breaks, run it again with the same lines: the relay
// remembers each id for 72 hours, and publishes nothing twice. The environment variable
// RELAY_TOKEN has the token, if the relay needs one. PHP 8 or later.

declare(strict_types=1);

// publish returns the relay's answer when the change is on its disk, however long that takes.
// It throws InvalidArgumentException where sending it again does not help.
function publish(string $relay, string $key, array $change): array
{
    $headers = ['Content-Type: application/json', "Idempotency-Key: $key", 'Connection: close'];
    if (getenv('RELAY_TOKEN')) {
        $headers[] = 'Authorization: Bearer ' . getenv('RELAY_TOKEN');
    }
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => $headers,
        'content' => json_encode($change, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE),
        'ignore_errors' => true, // return the body of an answer that is not 200
        'timeout' => 60,
    ]]);
    for ($wait = 100_000; ; $wait = min(2 * $wait, 30_000_000)) {
        $body = @file_get_contents($relay, false, $context);
        $answer = $body === false ? null : json_decode($body, true);
        $status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
        if ($status === 200 && isset($answer['seq'])) {
            return $answer;
        }
        if ($status >= 400 && $status < 500) {
            throw new InvalidArgumentException("$key was refused: " . ($answer['error'] ?? $body));
        }
        // Perhaps it was recorded, and only the answer is lost.
        fwrite(STDERR, 'waiting for the relay: ' . ($status ? "it answers $status" : 'there is no answer') . "\n");
        usleep($wait);
    }
}

while (($line = fgets(STDIN)) !== false) {
    $change = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    $id = (string) $change['id'];
    unset($change['id']);
    $answer = publish($argv[1], $id, $change);
    echo $id, ' ', $answer['seq'], "\n";
}
