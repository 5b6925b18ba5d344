package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/validate"
)

// After SIGHUP the publishers file as it is now is in force. If it has mistakes, the earlier one
// stays in force.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "publishers.yaml")
	write := func(publishers ...string) {
		text := "publishers:\n"
		for _, p := range publishers {
			name, token, _ := strings.Cut(p, " ")
			text += fmt.Sprintf("- {name: %s, topics: '*', token_sha256: %x}\n", name, sha256.Sum256([]byte(token)))
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	core, logs := observer.New(zapcore.InfoLevel)
	cfg := config.Config{PublishersFile: path}
	a, err := New(cfg, zap.New(core), "test")
	if err != nil {
		t.Fatal(err)
	}
	may := func(want bool, tokens ...string) {
		t.Helper()
		for _, token := range tokens {
			if _, err := a.publishers.live.ByToken(token, "https://example.org/"); errors.Is(err, validate.ErrUnknownCredential) == want {
				t.Errorf("token %s: %v", token, err)
			}
		}
	}
	said := func(event string, fields map[string]any) {
		t.Helper()
		all := logs.TakeAll()
		if len(all) != 1 {
			t.Fatalf("%d lines", len(all))
		}
		got := all[0].ContextMap()
		if got["event"] != event {
			t.Errorf("%v", got)
		}
		for k, v := range fields {
			if d := cmp.Diff(fmt.Sprint(v), fmt.Sprint(got[k])); d != "" {
				t.Errorf("%s: %s", k, d)
			}
		}
		if strings.Contains(fmt.Sprint(got), "0123456789") {
			t.Errorf("a hash or token is in %v", got)
		}
	}

	a.Reload() // there is no file, and never was
	said("reloaded", map[string]any{"publishers": 0})
	write("alice one", "bob two")
	a.Reload()
	said("reloaded", map[string]any{"publishers": 2, "added": []string{"alice", "bob"}, "removed": "[]", "changed": "[]"})
	may(true, "one", "two")
	write("alice other", "carol three")
	a.Reload()
	said("reloaded", map[string]any{"publishers": 2, "added": []string{"carol"}, "removed": []string{"bob"}, "changed": []string{"alice"}})
	may(true, "other", "three")
	may(false, "one", "two")

	for why, breaks := range map[string]func() error{
		"a mistake": func() error { return os.WriteFile(path, []byte("publishers:\n- name: x\n"), 0o600) },
		"no pattern": func() error {
			return os.WriteFile(path, []byte("publishers:\n- {name: x, topics: 'https://a*b.example/', token_sha256: "+strings.Repeat("ab", 32)+"}\n"), 0o600)
		},
		"gone":           func() error { return os.Remove(path) },
		"not to be read": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		write("dave four")
		if err := breaks(); err != nil {
			t.Fatal(err)
		}
		a.Reload()
		want := map[string]any{"file": path}
		if why == "a mistake" {
			want["error"] = path + `:2: publisher "x" has neither topics nor reads, so it could publish and read nothing`
		}
		said("reload_failed", want)
		may(true, "other", "three")
		may(false, "four")
	}
}
