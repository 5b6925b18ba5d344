package seal

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// HowTo is the command that makes a key, for messages to people.
const HowTo = "openssl rand -base64 32"

// maxFile bounds a file of keys.
const maxFile = 64 << 10

// ReadFile reads keys from a file: one a line, 32 bytes in base64 or
// hexadecimal, of which the first seals and all open. Empty lines and those that
// begin with # are skipped. Exposed: every user of this machine may
// access the file. A group may, so that a hub can read a file of root.
func ReadFile(name string) (keys *Keys, exposed bool, err error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("there is no file %s; name the file with the keys of the store. If the store has no key yet, make one with: (umask 077; %s > %s)", name, HowTo, name)
	}
	if err != nil {
		return nil, false, err
	}
	if info.Size() > maxFile {
		return nil, false, fmt.Errorf("%s has %d bytes, which is no file of keys", name, info.Size())
	}
	text, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, false, err
	}
	if keys, err = Parse(text); err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return keys, info.Mode().Perm()&0o007 != 0, nil
}

// Parse reads the text of such a file. Its errors never repeat the text.
func Parse(text []byte) (*Keys, error) {
	var secrets [][keySize]byte
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		secret, ok := parseKey(line)
		if !ok {
			return nil, fmt.Errorf("line %d is not a key of %d bytes in base64 or hexadecimal; make one with: %s", n, keySize, HowTo)
		}
		if slices.Contains(secrets, secret) {
			return nil, fmt.Errorf("line %d repeats a key that stands before it", n)
		}
		secrets = append(secrets, secret)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("it has a line that is no key: %w", err)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("there is no key in it; make one with: %s", HowTo)
	}
	return New(secrets...)
}

func parseKey(line string) (secret [keySize]byte, ok bool) {
	raw, err := hex.DecodeString(line)
	if err != nil {
		raw, err = base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(line, "="))
	}
	if err != nil || len(raw) != keySize {
		return secret, false
	}
	copy(secret[:], raw)
	return secret, true
}
