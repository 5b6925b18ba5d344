package embedstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A damaged database is an error that names the file and says what to do.
func TestDamagedDatabase(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"overwritten": func(b []byte) []byte {
			for i := 8192; i < len(b); i += 97 {
				b[i] ^= 0xff
			}
			return b
		},
		"cut short":      func(b []byte) []byte { return b[:5000] },
		"something else": func([]byte) []byte { return []byte(strings.Repeat("no database\n", 3000)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, Options{MinFree: -1})
			if err != nil {
				t.Fatal(err)
			}
			add(t, s, topic, 100)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, databaseName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err = Open(dir, Options{MinFree: -1})
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("the error does not say what to do with which file: %v", err)
			}
		})
	}
}
