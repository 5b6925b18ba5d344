package catalogue

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Entry is what a catalogue says of a resource. URL or Path is needed.
type Entry struct {
	// URL is the address at which the resource is listed, http or https. Empty: the Source
	// serves the file at Path, at an address of its own.
	URL string
	// Path is where the bytes lie below the root of contents, with / between
	// names.
	Path string
	// Content is an http or https URL from which the bytes can be fetched, if there is no Path.
	// Clients never see it.
	Content string
	// Length is the size in bytes, if HasLength is set.
	Length    int64
	HasLength bool
	// Hash is a list of algorithm:digest as in the documents of ResourceSync, such as
	// "sha-256:...".
	Hash string
	// Type is a media type. Encoding is the content coding in which the bytes are stored, such as
	// "gzip".
	Type, Encoding string
	// LastMod is when the resource was last modified.
	LastMod time.Time
	// Links lead to related resources.
	Links []resourcesync.Link
	// Deleted says that the resource does not exist any more.
	Deleted bool
}

// Check returns what is wrong with an entry; nil: it is right. It does not ask whether the
// resource exists.
func (e *Entry) Check() error {
	if e.URL == "" && e.Path == "" {
		return errors.New("it names no resource; give it a url or a path")
	}
	for _, u := range []struct{ field, url string }{{"url", e.URL}, {"content", e.Content}} {
		if u.url == "" {
			continue
		}
		at, err := url.Parse(u.url)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.Fragment != "" {
			return fmt.Errorf("%s is %q; it must be an absolute address such as https://example.org/a, percent-encoded and without a fragment", u.field, u.url)
		}
		if at.User != nil {
			return fmt.Errorf("%s has a user name or password, which others would see; remove everything up to the @", u.field)
		}
	}
	if e.Path != "" && e.Content != "" {
		return errors.New("it has a path and a content; give only the one from which the bytes are to be read")
	}
	if err := checkPath(e.Path); err != nil {
		return err
	}
	if e.HasLength && e.Length < 0 {
		return fmt.Errorf("length is %d; it must be the number of bytes, or be left out", e.Length)
	}
	return checkHash(e.Hash)
}

// checkPath checks a path, which may be empty.
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("path is %q; write the names from the root of contents down with / between them, without a / at either end and without the names . and .. in it", path)
		}
	}
	return nil
}

// checkHash checks a list of digests, which may be empty.
func checkHash(list string) error {
	for element := range strings.FieldsSeq(list) {
		if resourcesync.ParseHashes(element) == (resourcesync.Digests{}) {
			return fmt.Errorf("hash has %q; write an algorithm (md5, sha-1, sha-256, sha-384 or sha-512), a colon and the digest in hexadecimal digits", element)
		}
	}
	return nil
}
