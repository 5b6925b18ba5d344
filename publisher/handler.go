package publisher

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// location is the URL of the immutable copy of an interval.
func (p *Publisher) location(i interval) string {
	return strings.TrimSuffix(p.o.Topic, "/") + "/" + i.name()
}

// Handler serves the topic URI and, below it, the immutable copies of
// notifications (SRC-02, SRC-03): GET, HEAD, conditional requests and ranges. Mount it at
// the path of the topic, without stripping a prefix.
//
// The topic URI answers with the newest notification, and with no content before there is
// one. Its Link header names the topic, the hubs and the Capability List. A copy exists as
// long as its interval.
func (p *Publisher) Handler() http.Handler {
	topic := "/"
	if u, err := url.Parse(p.o.Topic); err == nil && u.Path != "" { // Open parsed it already
		topic = u.Path
	}
	hubs := make([]string, len(p.o.Hubs))
	for n, h := range p.o.Hubs {
		hubs[n] = h.URL
	}
	link := linkHeader(p.o.Topic, hubs, p.o.CapabilityList)
	below := strings.TrimSuffix(topic, "/") + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, copied := strings.CutPrefix(r.URL.Path, below)
		copied = copied && name != ""
		switch {
		case !copied && r.URL.Path != topic:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "This is a topic of ResourceSync: it can be read, and subscribed to at the hub that its Link header names.", http.StatusMethodNotAllowed)
		case copied:
			p.serveCopy(w, r, link, name)
		default:
			p.serveTopic(w, r, link)
		}
	})
}

func (p *Publisher) serveCopy(w http.ResponseWriter, r *http.Request, link, name string) {
	from, ok := parseName(name)
	i, err := boltfile.Read(p.box.db, func(tx *boltfile.Tx) (i interval) {
		if ok {
			i, ok = namedInterval(tx, from, name)
		}
		return i
	})
	if err == nil && ok {
		err = p.serve(w, r, link, i, fmt.Sprintf("public, max-age=%d, immutable", int(p.o.Keep/time.Second)), "")
	}
	switch {
	case errors.Is(err, errGone), err == nil && !ok:
		http.Error(w, "There is no such notification, or it was deleted already.", http.StatusNotFound)
	case err != nil:
		p.unavailable(w, r, err)
	}
}

func (p *Publisher) serveTopic(w http.ResponseWriter, r *http.Request, link string) {
	const cache = "no-cache"
	var any bool
	serveLast := func() error {
		i, err := boltfile.Read(p.box.db, func(tx *boltfile.Tx) (i interval) {
			i, any = lastInterval(tx)
			return i
		})
		if err != nil || !any {
			return err
		}
		return p.serve(w, r, link, i, cache, p.location(i))
	}
	err := serveLast()
	for errors.Is(err, errGone) { // there is a newer one
		err = serveLast()
	}
	switch {
	case err != nil:
		p.unavailable(w, r, err)
	case !any:
		w.Header().Set("Cache-Control", cache)
		w.Header().Set("Content-Type", mediaXML)
		w.Header().Set("Link", link)
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
}

// serve answers with the bytes of an interval. Location is its Content-Location, which may be empty. After an error
// nothing is answered yet.
func (p *Publisher) serve(w http.ResponseWriter, r *http.Request, link string, i interval, cache, location string) error {
	var content io.ReadSeeker
	if i.InFile {
		f, err := p.box.files.open(i)
		if err != nil {
			return p.box.whyNot(i, err)
		}
		defer func() { _ = f.Close() }()
		content = f
	} else {
		body, err := p.box.body(i)
		if err != nil {
			return err
		}
		content = bytes.NewReader(body)
	}
	if location != "" {
		w.Header().Set("Content-Location", location)
	}
	w.Header().Set("Cache-Control", cache)
	w.Header().Set("Content-Type", mediaXML)
	w.Header().Set("Link", link)
	w.Header().Set("ETag", `"`+hex.EncodeToString(i.SHA256[:])+`"`)
	http.ServeContent(w, r, "", i.Cut, content)
	return nil
}

func (p *Publisher) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	p.o.Log.Error("a notification could not be served", slog.String("event", "topic_unavailable"),
		slog.String("topic", p.o.Topic), slog.String("path", r.URL.Path), slog.Any("error", err))
	w.Header().Set("Retry-After", "10")
	http.Error(w, "The outbox cannot be read at the moment.", http.StatusServiceUnavailable)
}
