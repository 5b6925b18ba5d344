package redisstore

import (
	"slices"
	"testing"
)

// The names of the keys are part of the schema. What is under another name is not found,
// so whoever changes one also has to raise schema, and this list with it.
func TestStoredNames(t *testing.T) {
	k := keys("p")
	topic, records := k.topic("https://example.org/"), k.records(9)
	got := []string{
		topic.heads, topic.entries, topic.intervals, topic.ids, topic.changes, topic.latest, topic.history,
		k.partition(topic.partition, namePings), k.partition(topic.partition, nameConfirmed), k.body(topic.id),
		records.cursors, records.subs, records.requests, records.changes, records.attempts(topic.id), k.owners(9),
		k.meta(nameStore), k.meta(nameSecrets), k.nodes(beginsSummary + "hub/run"), k.nodes(nameNotes), k.nodes(beginsShelf + "name"),
	}
	const id = "527dda32-a0de-5105-a042-cb475b5f7d11"
	want := []string{
		"p:{p:84}:heads", "p:{p:84}:entries:" + id, "p:{p:84}:intervals:" + id, "p:{p:84}:ids", "p:{p:84}:changes", "p:{p:84}:latest", "p:{p:84}:history",
		"p:{p:84}:marks", "p:{p:84}:confirmed", "p:{p:17}:body:" + id,
		"p:{r:1}:cursors", "p:{r:1}:subscriptions:9", "p:{r:1}:requests:9", "p:{r:1}:changes:9", "p:{r:1}:attempts:" + id, "p:{r:1}:owners",
		"p:{meta}:store", "p:{meta}:secrets", "p:{nodes}:summary:hub/run", "p:{nodes}:notes", "p:{nodes}:shelf:name",
	}
	if schema != 2 || !slices.Equal(got, want) {
		t.Errorf("schema %d has the keys %q, want schema 2 with %q", schema, got, want)
	}
}
