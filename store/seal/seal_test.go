package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func secretOf(b byte) (s [keySize]byte) {
	for i := range s {
		s[i] = b
	}
	return s
}

func keysOf(t testing.TB, of ...byte) *Keys {
	t.Helper()
	var secrets [][keySize]byte
	for _, b := range of {
		secrets = append(secrets, secretOf(b))
	}
	k, err := New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealedIsOpenedAndTellsNothing(t *testing.T) {
	k := keysOf(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		secret, about := rapid.StringN(1, 200, -1).Draw(t, "secret"), rapid.String().Draw(t, "about")
		stored := k.Seal([]byte("before"), secret, about)
		stored, ok := bytes.CutPrefix(stored, []byte("before"))
		if !ok || len(secret) > 3 && bytes.Contains(stored, []byte(secret)) {
			t.Fatalf("%q is stored as %q", secret, stored)
		}
		if again := k.Seal(nil, secret, about); bytes.Equal(again, stored) {
			t.Fatal("the same secret is stored in the same way twice")
		}
		got, err := k.Open(stored, about)
		if err != nil || got != secret {
			t.Fatalf("%q, %v", got, err)
		}
		if _, err := k.Open(stored, about+"x"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "backup") {
			t.Fatalf("moved to another record: %v", err)
		}
		at := rapid.IntRange(0, len(stored)-1).Draw(t, "at")
		damaged := bytes.Clone(stored)
		damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if got, err := k.Open(damaged, about); err == nil && damaged[0] != formPlain {
			t.Fatalf("changed at %d it opens to %q", at, got)
		}
	})
}

// A key is changed by putting another before it: what the old one sealed opens
// still, and is not fresh.
func TestRotation(t *testing.T) {
	const about = "topic\ncallback"
	plain := (*Keys)(nil).Seal(nil, "s", about)
	old := keysOf(t, 1)
	sealed := old.Seal(nil, "s", about)
	both := keysOf(t, 2, 1)
	renewed := both.Seal(nil, "s", about)
	for name, tc := range map[string]struct {
		keys   *Keys
		stored []byte
		fresh  bool
		lacks  *ID
	}{
		"plain, no key":       {nil, plain, true, nil},
		"plain, a key":        {old, plain, false, nil},
		"sealed, its key":     {old, sealed, true, nil},
		"sealed, a new key":   {both, sealed, false, nil},
		"renewed":             {both, renewed, true, nil},
		"renewed, old key":    {old, renewed, false, &both.IDs()[0]},
		"sealed, no key":      {nil, sealed, false, &old.IDs()[0]},
		"sealed, another key": {keysOf(t, 3), sealed, false, &old.IDs()[0]},
	} {
		if fresh := tc.keys.Fresh(tc.stored); fresh != tc.fresh {
			t.Errorf("%s: fresh is %t", name, fresh)
		}
		got, err := tc.keys.Open(tc.stored, about)
		var missing *KeyError
		if lacks := errors.As(err, &missing); tc.lacks == nil && (got != "s" || err != nil) || tc.lacks != nil && (!lacks || missing.ID != *tc.lacks) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if both.IDs()[0] == both.IDs()[1] || strings.Contains(hex.EncodeToString(bytes.Repeat([]byte{2}, 32)), both.IDs()[0].String()) {
		t.Errorf("ids of keys: %v", both.IDs())
	}
}

func TestNoSecretIsStoredAsNothing(t *testing.T) {
	for _, k := range []*Keys{nil, keysOf(t, 1)} {
		if stored := k.Seal(nil, "", "x"); len(stored) != 0 || !k.Fresh(stored) {
			t.Errorf("%q", stored)
		}
		if got, err := k.Open(nil, "x"); got != "" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	one, two := secretOf(1), secretOf(2)
	b64, hexa := base64.StdEncoding.EncodeToString(one[:]), hex.EncodeToString(two[:])
	k, err := Parse([]byte("# the new one\n\n  " + hexa + "  \r\n" + b64 + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if ids := k.IDs(); len(ids) != 2 || ids[0] != keysOf(t, 2).IDs()[0] || ids[1] != keysOf(t, 1).IDs()[0] {
		t.Errorf("%v", ids)
	}
	for name, text := range map[string]string{
		"no key":     "# none\n",
		"line 1":     b64[:len(b64)-5],
		"line 2":     b64 + "\n" + hexa + "00",
		"repeats":    b64 + "\n" + hex.EncodeToString(one[:]),
		"token":      strings.Repeat("x", 1<<17), // bufio's word for a line that is too long
		"not a key ": "correct horse battery staple",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "horse") || strings.Contains(err.Error(), b64) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys")
	if _, _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), HowTo) {
		t.Errorf("no file: %v", err)
	}
	secret := secretOf(7)
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o604: true, 0o602: true} {
		if err := os.WriteFile(name, []byte(hex.EncodeToString(secret[:])), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if k, exposed, err := ReadFile(name); err != nil || len(k.IDs()) != 1 || exposed != want {
			t.Errorf("%o: exposed %t, %v", mode, exposed, err)
		}
	}
	if err := os.WriteFile(name, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), name+": line 1 ") {
		t.Errorf("a file without a key: %v", err)
	}
	if _, _, err := ReadFile(filepath.Dir(name)); err == nil {
		t.Error("a folder is read as a file of keys")
	}
	if err := os.Truncate(name, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a large file: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	k := keysOf(f, 1, 2)
	f.Add(k.Seal(nil, "secret", "about"), "about")
	f.Add((*Keys)(nil).Seal(nil, "secret", "about"), "about")
	f.Add([]byte{formSealed}, "")
	f.Fuzz(func(t *testing.T, stored []byte, about string) {
		secret, err := k.Open(stored, about)
		if err == nil && len(stored) > 0 && stored[0] == formPlain && secret != string(stored[1:]) {
			t.Errorf("%q opens to %q", stored, secret)
		}
		if err == nil && len(stored) > 0 {
			if again, err := k.Open(k.Seal(nil, secret, about), about); err != nil || again != secret {
				t.Errorf("%q, %v", again, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# key\n" + strings.Repeat("ab", 32) + "\n"))
	f.Add([]byte(base64.StdEncoding.EncodeToString(make([]byte, 32))))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := Parse(text)
		if err == nil && len(k.IDs()) == 0 {
			t.Error("no key and no error")
		}
	})
}

// The zero Keys have no key, as nil has none.
func TestZeroKeys(t *testing.T) {
	const about = "record"
	sealed := keysOf(t, 1).Seal(nil, "s", about)
	for name, k := range map[string]*Keys{"nil": nil, "zero": {}} {
		stored := k.Seal(nil, "s", about)
		if got, err := k.Open(stored, about); err != nil || got != "s" || !k.Fresh(stored) || k.Fresh(sealed) || k.IDs() != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := k.Open(sealed, about); !errors.As(err, new(*KeyError)) {
			t.Errorf("%s opens what was sealed: %v", name, err)
		}
	}
}
