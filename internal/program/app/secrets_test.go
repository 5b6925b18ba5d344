package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// After the key has changed, the hub reports when it no longer needs the old one. A hub that lacks a
// key does not start.
func TestSealKeys(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	const one, two = "1111111111111111111111111111111111111111111111111111111111111111", "2222222222222222222222222222222222222222222222222222222222222222"
	id := func(key string) string {
		keys, err := seal.Parse([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return keys.IDs()[0].String()
	}
	// run starts a hub, which gets one more subscription, and ends it.
	n := 0
	run := func(args ...string) (*observer.ObservedLogs, error) {
		a := newApp(t, append(args, "--data-dir="+filepath.Join(dir, "data"))...)
		core, logs := observer.New(zap.DebugLevel)
		a.log = zap.New(core)
		if err := a.Start(t.Context()); err != nil {
			return logs, err
		}
		n++
		r := subscriptions.Request{
			Mode: websub.ModeSubscribe, Topic: "https://source.example/", Callback: fmt.Sprintf("https://subscriber.example/%d", n),
			Secret: "a secret of a subscriber", Denied: "not yet",
		}
		_, err := a.backend.Update(t.Context(), r.SubscriptionID(), func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{Request: &r}, nil
		})
		return logs, errors.Join(err, a.Stop(t.Context()))
	}
	write := func(text string, mode os.FileMode) {
		if err := errors.Join(os.WriteFile(file, []byte(text), mode), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if logs, err := run(); err != nil || logs.FilterField(zap.String("event", "secrets_sealed")).Len() != 0 {
		t.Fatalf("without a key: %v, %v", err, logs.All())
	}
	for _, step := range []struct {
		keys    string
		mode    os.FileMode
		key     string
		retired []any
		warns   int
	}{
		{one, 0o600, one, []any{}, 0},
		{two + "\n" + one, 0o604, two, []any{id(one)}, 1},
		{two, 0o640, two, []any{}, 0},
	} {
		write(step.keys, step.mode)
		logs, err := run("--seal-key-file=" + file)
		lines := logs.FilterField(zap.String("event", "secrets_sealed")).All()
		if err != nil || len(lines) != 1 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		got := lines[0].ContextMap()
		if got["key"] != id(step.key) || fmt.Sprint(got["retired"]) != fmt.Sprint(step.retired) {
			t.Errorf("%v", got)
		}
		warned := logs.FilterField(zap.String("event", "seal_keys_exposed")).Len()
		if warned != step.warns {
			t.Errorf("a file with mode %o gets %d warnings", step.mode, warned)
		}
	}
	write(one, 0o600)
	for _, tc := range []struct {
		args []string
		says []string
	}{
		{nil, []string{id(two), "subscription", "--seal-key-file"}},
		{[]string{"--seal-key-file=" + file}, []string{id(two), "subscription", "--seal-key-file"}},
		{[]string{"--seal-key-file=" + file + ".no"}, []string{"--seal-key-file", file + ".no", seal.HowTo}},
		{[]string{"--seal-key-file=" + dir}, []string{"--seal-key-file", dir}},
	} {
		_, err := run(tc.args...)
		for _, want := range tc.says {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v does not say %q", tc.args, err, want)
			}
		}
	}
}
