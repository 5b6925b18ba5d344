package resourcesync

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// viaEncodingXML writes down the events of doc as scan does, but taken from
// encoding/xml.
func viaEncodingXML(doc []byte) (string, error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	var b, text strings.Builder
	depth := 0
	for {
		tok, err := d.Token()
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		switch tok.(type) {
		case xml.StartElement, xml.EndElement:
			if text.Len() > 0 {
				fmt.Fprintf(&b, "text %q\n", text.String())
				text.Reset()
			}
		}
		switch tok := tok.(type) {
		case nil:
			return b.String(), nil
		case xml.StartElement:
			depth++
			fmt.Fprintf(&b, "start {%q}%s", tok.Name.Space, tok.Name.Local)
			for _, a := range tok.Attr {
				switch {
				case a.Name.Space == "xmlns":
					fmt.Fprintf(&b, " xmlns:%s=%q", a.Name.Local, a.Value)
				case a.Name.Space == "" && a.Name.Local == "xmlns":
					fmt.Fprintf(&b, " xmlns=%q", a.Value)
				default:
					fmt.Fprintf(&b, " {%q}%s=%q", a.Name.Space, a.Name.Local, a.Value)
				}
			}
			b.WriteByte('\n')
		case xml.EndElement:
			depth--
			b.WriteString("end\n")
		case xml.CharData:
			if depth > 0 {
				text.Write(tok)
			}
		}
	}
}

// sameSpace makes white space in attribute values alike: encoding/xml leaves it as it is,
// while XML demands spaces.
var sameSpace = strings.NewReplacer(`\n`, " ", `\t`, " ", `\r`, " ")

// The scanner against encoding/xml: what we accept it accepts as well, and finds the same
// elements, attributes and text. It accepts much that is not well-formed (duplicate
// attributes, undeclared prefixes, no space between attributes, text after the root, a
// DTD), so the reverse is not asked.
func FuzzScanner(f *testing.F) {
	for _, tc := range malformed {
		f.Add([]byte(tc.bad))
		f.Add([]byte(tc.good))
	}
	for _, tc := range namespaceErrors {
		f.Add([]byte(tc.bad))
		f.Add([]byte(tc.good))
	}
	for _, tc := range notificationRules {
		f.Add([]byte(tc.doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		ours, err := scan(bytes.NewReader(doc), Limits{})
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Msg == "" || !utf8.ValidString(e.Msg)) {
			t.Fatalf("%q: %v", doc, err)
		}
		// A small window leads to the same, unless something does not fit it.
		small, smallErr := scan(iotest.HalfReader(bytes.NewReader(doc)), Limits{Token: minToken})
		if fmt.Sprint(smallErr) != fmt.Sprint(err) || small != ours {
			var over *Error
			if !errors.As(smallErr, &over) || over.Kind != OverLimit {
				t.Fatalf("%q: %q, %v; with a small window %q, %v", doc, ours, err, small, smallErr)
			}
		}
		if err != nil {
			return
		}
		theirs, err := viaEncodingXML(doc)
		if err != nil {
			// It knows the name characters of the fourth edition only.
			if strings.Contains(err.Error(), "invalid XML name") && !isASCII(doc) {
				return
			}
			t.Fatalf("%q: encoding/xml says %v", doc, err)
		}
		if sameSpace.Replace(ours) != sameSpace.Replace(theirs) {
			t.Fatalf("%q:\n%s\nencoding/xml:\n%s", doc, ours, theirs)
		}
	})
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// FuzzNotification: CheckNotification and NotificationReader agree, in whatever
// chunks the document comes, and what they accept keeps its promises.
func FuzzNotification(f *testing.F) {
	for _, tc := range notificationRules {
		f.Add(tc.doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		n, err := CheckNotification(strings.NewReader(doc), Limits{})
		r := NewNotificationReader(strings.NewReader(doc), Limits{})
		if n3, err3 := r.Check(); n3 != n || !sameError(err3, err) {
			t.Fatalf("%q: %+v, %v; noting hashes %+v, %v", doc, n, err, n3, err3)
		}
		entries, n2, err2 := readAll(iotest.HalfReader(strings.NewReader(doc)), Limits{})
		var e, e2 *Error
		if err != nil {
			if !errors.As(err, &e) || !errors.As(err2, &e2) || n != (Notification{}) {
				t.Fatalf("%q: %+v, %v; entry by entry %v", doc, n, err, err2)
			}
			if *e != *e2 && (e.Kind == BadDocument || e2.Kind != BadDocument) {
				t.Fatalf("%q: %v; entry by entry %v", doc, e, e2)
			}
			return
		}
		c := n.Counts
		if err2 != nil || n != n2 || len(entries) != n.Entries || int(c.Created+c.Updated+c.Deleted) != n.Entries {
			t.Fatalf("%q: %+v; entry by entry %+v, %v", doc, n, n2, err2)
		}
		checkPromises(t, doc, n, entries)
		_, odd := r.OddHashes()
		checkOddHashes(t, doc, entries, odd)
		again, _, _ := readAll(strings.NewReader(doc), Limits{})
		if !reflect.DeepEqual(entries, again) {
			t.Fatalf("%q: %+v, then %+v", doc, entries, again)
		}
	})
}

// checkOddHashes compares the number of hashes that nothing can be compared with to what
// parsing them says.
func checkOddHashes(t *testing.T, doc string, entries []Entry, odd int) {
	t.Helper()
	want := 0
	count := func(hash string) {
		if hash != "" && !hasDigest(hash) {
			want++
			if ParseHashes(hash) != (Digests{}) {
				t.Errorf("%q: %q has a digest", doc, hash)
			}
		}
	}
	for i := range entries {
		count(entries[i].Hash)
		for j := range entries[i].Links {
			count(entries[i].Links[j].Hash)
		}
	}
	if odd < want {
		t.Errorf("%q: %d odd hashes, of %d in entries", doc, odd, want)
	}
}

func checkPromises(t *testing.T, doc string, n Notification, entries []Entry) {
	t.Helper()
	switch n.Capability {
	case ChangeNotification:
		if n.From.IsZero() || n.Until.IsZero() || n.Until.Before(n.From) {
			t.Errorf("%q: from %v until %v", doc, n.From, n.Until)
		}
	case FrameworkNotification:
	default:
		t.Errorf("%q: capability %q", doc, n.Capability)
	}
	var last Entry
	for _, e := range entries {
		if e.Loc == "" || e.Change == "" || e.Line < 1 || e.Length < 0 {
			t.Errorf("%q: %+v", doc, e)
		}
		if !e.Datetime.IsZero() {
			if e.Datetime.Before(last.Datetime) || !n.Until.IsZero() && e.Datetime.After(n.Until) || e.Datetime.Before(n.From) {
				t.Errorf("%q: %v after %v within %v to %v", doc, e.Datetime, last.Datetime, n.From, n.Until)
			}
			last = e
		}
		for _, l := range e.Links {
			if l.Rel == "" || l.Href == "" || l.Pri < 0 || l.Pri > 999_999 {
				t.Errorf("%q: %+v", doc, l)
			}
		}
	}
}
