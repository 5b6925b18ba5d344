package storetest

import (
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

func (k *kit) pingRecord(topic string) journal.PingRecord {
	k.Helper()
	return call(k.h.PingRecord(k.Context(), topic)).must(k, "PingRecord")
}

func (k *kit) ping(second int, topics ...string) {
	k.Helper()
	k.ok(k.h.Ping(k.Context(), at(second), topics), "Ping")
}

// fetched stores the end of the fetch that began when m was read.
func (k *kit) fetched(m journal.PingRecord) journal.PingRecord {
	k.Helper()
	m.Fetched, m.Tries, m.Last = m.Pings, 0, journal.Fetch{At: at(90), Outcome: "accepted"}
	k.ok(k.h.SetFetched(k.Context(), m), "SetFetched")
	return m
}

// HUB-60: what journal.Pings promises.
var pingChecks = []Check{
	{"PingRecordOfATopicThatNobodyPinged", func(k *kit) {
		k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName})
		k.fill(topicName, 1)
		k.same("the ping record of one with a head", k.pingRecord(topicName), journal.PingRecord{Topic: topicName})
	}},
	{"PingsAreCounted", func(k *kit) {
		other := topicName + "other"
		k.ping(1, topicName)
		k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName, Pings: 1, PingedAt: at(1)})
		k.ping(5, topicName, other, topicName)
		k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName, Pings: 3, PingedAt: at(5)})
		k.same("the other", k.pingRecord(other), journal.PingRecord{Topic: other, Pings: 1, PingedAt: at(5)})
		k.same("a head", k.head(topicName).Version, journal.Version(""))
	}},
	{"SetFetchedKeepsWhatItIsGiven", func(k *kit) {
		k.ping(1, topicName)
		want := k.pingRecord(topicName)
		want.Tries, want.NextAt = 3, at(60)
		want.Last = journal.Fetch{At: at(2), Outcome: "topic-unreachable", Detail: "a sentence", Status: 503, ID: uuid.New()}
		k.ok(k.h.SetFetched(k.Context(), want), "SetFetched")
		k.same("the ping record", k.pingRecord(topicName), want)
		k.expect(want.Waiting(), "it does not wait")
		want = k.fetched(want)
		k.same("the ping record", k.pingRecord(topicName), want)
		k.ping(4, topicName)
		want.Pings, want.PingedAt = 2, at(4)
		k.same("the ping record after the next ping", k.pingRecord(topicName), want)
	}},
	{"APingDuringAFetchIsStillToBeDone", func(k *kit) {
		k.ping(1, topicName)
		began := k.pingRecord(topicName)
		k.ping(2, topicName)
		k.fetched(began)
		got := k.pingRecord(topicName)
		k.expect(got.Pings == 2 && got.Fetched == 1 && got.PingedAt.Equal(at(2)) && got.Waiting(), "%+v", got)
	}},
	{"SetFetchedChangesNothing", func(k *kit) {
		k.ping(1, topicName)
		first := k.pingRecord(topicName)
		k.ping(2, topicName)
		want := k.fetched(k.pingRecord(topicName))
		for why, m := range map[string]journal.PingRecord{
			"an older fetch":                                  first,
			"a ping record that was deleted since":            {Topic: topicName, Fetched: 9},
			"a topic that was never pinged":                   {Topic: topicName + "other", Fetched: 1},
			"a topic that was pinged, before its first fetch": {Topic: topicName + "other", Tries: 1},
			"an older fetch that failed":                      {Topic: topicName, Fetched: 1, Tries: 4},
		} {
			k.ok(k.h.SetFetched(k.Context(), m), why)
			k.same(why, k.pingRecord(topicName), want)
			k.same(why, k.pingRecord(topicName+"other"), journal.PingRecord{Topic: topicName + "other"})
		}
	}},
	{"DeletePingRecordForgets", func(k *kit) {
		k.ping(1, topicName, topicName+"other")
		m := k.fetched(k.pingRecord(topicName))
		k.ping(2, topicName)
		k.ok(k.h.DeletePingRecord(k.Context(), m), "DeletePingRecord")
		k.same("pings, where one came meanwhile", k.pingRecord(topicName).Pings, uint64(2))
		k.ok(k.h.DeletePingRecord(k.Context(), k.pingRecord(topicName)), "DeletePingRecord")
		k.same("the ping record", k.pingRecord(topicName), journal.PingRecord{Topic: topicName})
		k.ping(1, topicName)
		k.ok(k.h.DeletePingRecord(k.Context(), journal.PingRecord{Topic: topicName, Pings: 1, PingedAt: at(0)}), "DeletePingRecord")
		k.same("pings of a new one", k.pingRecord(topicName).Pings, uint64(1))
		k.same("pings of another topic", k.pingRecord(topicName+"other").Pings, uint64(1))
	}},
	{"PingRecordsListInPages", func(k *kit) {
		const partition = 11
		topics := topicsOf(partition, 8)
		k.ping(1, append(topicsOf(partition+1, 2), topics...)...)
		k.fill(topics[2], 1)
		k.same("the ping records", k.pages(func(after uuid.UUID) (out []uuid.UUID) {
			for _, m := range call(k.h.PingRecords(k.Context(), partition, after, pageOf)).must(k, "PingRecords") {
				out = append(out, journal.TopicID(m.Topic))
				k.same("the ping record", m, k.pingRecord(m.Topic))
			}
			return out
		}), topicIDs(topics))
		none := call(k.h.PingRecords(k.Context(), partition, uuid.Nil, 0)).must(k, "PingRecords")
		k.same("ping records of a page of none", len(none), 0)
	}},
	// Invariant 12. Only topics without a head count.
	{"PingRecordsAreBounded", func(k *kit) {
		const partition = 11
		topics := topicsOf(partition, journal.MaxPingRecords+4)
		k.fill(topics[0], 1)
		known, strange, over := topics[0], topics[1:journal.MaxPingRecords+1], topics[journal.MaxPingRecords+1:]
		k.ping(1, strange...)
		elsewhere := topicsOf(partition+1, 1)[0]
		k.ping(2, strange[0], known, elsewhere) // these are known already, or have a head, or belong to another partition
		k.fails(k.h.Ping(k.Context(), at(3), []string{strange[1], over[0]}), journal.ErrTooManyPings, "Ping")
		k.same("pings of the topic beside it", k.pingRecord(strange[1]).Pings, uint64(1))
		k.same("pings of the topic", k.pingRecord(over[0]).Pings, uint64(0))
		k.same("pings of the known one", k.pingRecord(known).Pings, uint64(1))

		// Those whose fetch is done make room. The one with the oldest ping goes first.
		k.ping(5, strange[7])
		for _, topic := range []string{strange[7], strange[8], known} {
			k.fetched(k.pingRecord(topic))
		}
		k.ping(6, over[0])
		k.same("pings of the new one", k.pingRecord(over[0]).Pings, uint64(1))
		k.same("pings of the one that made room", k.pingRecord(strange[8]).Pings, uint64(0))
		k.same("pings of the next one", k.pingRecord(strange[7]).Pings, uint64(2))
		k.same("pings of the known one", k.pingRecord(known).Pings, uint64(1))

		// A topic that is pinged in the same call does not make room.
		k.fails(k.h.Ping(k.Context(), at(7), []string{over[1], strange[7]}), journal.ErrTooManyPings, "Ping")
		k.same("pings of the next one", k.pingRecord(strange[7]).Pings, uint64(2))
		k.fill(strange[3], 1) // now it has a head
		k.ping(8, over[1], strange[7])
		k.fails(k.h.Ping(k.Context(), at(9), over[2:]), journal.ErrTooManyPings, "Ping")
	}},
	{"RestartKeepsThePingRecords", func(k *kit) {
		k.ping(1, topicName)
		m := k.pingRecord(topicName)
		m.Tries, m.NextAt, m.Last = 1, at(9), journal.Fetch{At: at(2), Outcome: "topic-unreachable", Status: 500}
		k.ok(k.h.SetFetched(k.Context(), m), "SetFetched")
		k.ping(3, topicName)
		want := k.pingRecord(topicName)
		k.reopen()
		k.same("the ping record", k.pingRecord(topicName), want)
		k.expect(want.Pings == 2 && want.Tries == 1, "%+v", want)
	}},
}
