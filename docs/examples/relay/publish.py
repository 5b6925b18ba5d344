#!/usr/bin/env python3
"""Publish changes through `rspub relay`: all of them, in order, each once.

    python3 publish.py http://localhost:8091/ < changes.jsonl

Each line is a change, with an id that stays the same when the line is sent again, such as the
number of its row in your database:

    {"id": "42", "change": "updated", "url": "https://example.org/books/1"}

If the relay, the network or this program breaks, run it again with the same lines: the relay
remembers each id for 72 hours, and publishes nothing twice. The environment variable
RELAY_TOKEN has the token, if the relay needs one.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

# No proxy: the relay is on this machine.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Refused(Exception):
    """The relay says that something is wrong with the request. Sending it again does not help."""


def publish(relay, key, change):
    """Return the relay's answer when the change is on its disk, however long that takes."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if os.environ.get("RELAY_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["RELAY_TOKEN"]
    request = urllib.request.Request(relay, json.dumps(change).encode(), headers)
    wait = 0.1
    while True:
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise Refused(json.load(error)["error"]) from None
            why = "the relay answers %d" % error.code
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = error  # perhaps it was recorded, and only the answer is lost
        print("waiting for the relay: %s" % why, file=sys.stderr)
        time.sleep(wait)
        wait = min(2 * wait, 30)


def main():
    for line in sys.stdin:
        change = json.loads(line)
        key = change.pop("id")
        try:
            answer = publish(sys.argv[1], key, change)
        except Refused as why:
            sys.exit("%s was refused: %s" % (key, why))
        print(key, answer["seq"])


if __name__ == "__main__":
    main()
