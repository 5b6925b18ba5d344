package cli

import (
	"os"
	"strings"
	"sync"
)

// Credential is the one line of a file that a flag names, read again when the file
// has changed. Its methods may be called from several goroutines.
type Credential struct {
	name string
	read func() (string, error)

	mu   sync.Mutex
	file os.FileInfo // as it was read last
	line string
}

// ReadCredential reads the file for the first time; an empty name means no file.
// An error is for ExitUsage.
func ReadCredential(flag, name string) (*Credential, error) {
	return readCredential(name, func() (string, error) { return readLine(flag, name) })
}

// readCredential is ReadCredential with a function that reads the file.
func readCredential(name string, read func() (string, error)) (c *Credential, err error) {
	c = &Credential{name: name, read: read}
	if name == "" {
		return c, nil
	}
	c.file, _ = os.Stat(name) // reading it reports the error
	c.line, err = c.read()
	return c, err
}

// Get returns the line that the file has now; empty: no file was named. While the file is
// missing, or does not have exactly one line, Get returns the last valid one.
func (c *Credential) Get() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" {
		return ""
	}
	now, err := os.Stat(c.name)
	if err != nil || c.file != nil && os.SameFile(now, c.file) && now.Size() == c.file.Size() && now.ModTime().Equal(c.file.ModTime()) {
		return c.line
	}
	if line, err := c.read(); err == nil {
		c.line, c.file = line, now
	}
	return c.line
}

func readLine(flag, name string) (string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the user names the file
	if err != nil {
		return "", Fail(ExitUsage, "%s: %w", flag, err)
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", Fail(ExitUsage, "%s %s must have exactly one line", flag, name)
	}
	return line, nil
}
