package redisstore

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]target{
		"redis://h":                    {addresses: []string{"h:6379"}},
		"redis://h/":                   {addresses: []string{"h:6379"}},
		"redis://h:1/3":                {addresses: []string{"h:1"}, db: 3},
		"redis://[::1]:7/0":            {addresses: []string{"[::1]:7"}},
		"redis://[::1]":                {addresses: []string{"[::1]:6379"}},
		"redis://:p%40w%2f@h":          {addresses: []string{"h:6379"}, password: "p@w/"},
		"redis://u:p@w@h":              {addresses: []string{"h:6379"}, username: "u", password: "p@w"},
		"redis://u:p+:w@h":             {addresses: []string{"h:6379"}, username: "u", password: "p+:w"},
		"rediss://h?ca-file=/etc/ca":   {addresses: []string{"h:6379"}, tls: true, caFile: "/etc/ca"},
		"redis+cluster://a:1":          {addresses: []string{"a:1"}, cluster: true}, // one address, and a Cluster all the same
		"redis+cluster://u:p@a:1,b":    {addresses: []string{"a:1", "b:6379"}, cluster: true, username: "u", password: "p"},
		"rediss+cluster://a,a,b":       {addresses: []string{"a:6379", "b:6379"}, cluster: true, tls: true},
		"redis+sentinel://a:1,b:2/m":   {addresses: []string{"a:1", "b:2"}, master: "m"},
		"redis+sentinel://a:1,b:2/m/4": {addresses: []string{"a:1", "b:2"}, master: "m", db: 4},
		"rediss+sentinel://:p@a:1/m%20n?sentinel-password=%26x&sentinel-username=y": {
			addresses: []string{"a:1"}, master: "m n", tls: true, password: "p", sentinelPassword: "&x", sentinelUsername: "y",
		},
		"rediss://h?cert-file=c&key-file=k": {addresses: []string{"h:6379"}, tls: true, certFile: "c", keyFile: "k"},
	} {
		got, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		want.scheme, _, _ = strings.Cut(raw, ":")
		want.sentinels = want.master != ""
		if d := cmp.Diff(want, got, cmp.AllowUnexported(target{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", raw, d)
		}
	}
}

// wrongURLs have the password "hunter2" in some place or other.
var wrongURLs = []string{
	"", "hunter2", "://hunter2", "http://u:hunter2@h", "redis:hunter2@h", "REDIS://u:hunter2@h",
	"redis://", "redis://u:hunter2@", "redis://u:hunter2@h:0", "redis://u:hunter2@h:65536", "redis://u:hunter2@h:", "redis://u:hunter2@h:x",
	"redis://u:hunter2/@h", "redis://u:hunter2?@h", "redis://u:hunter2#@h", "redis://u:hunter2 @h", "redis://u:hunter2%@h", "redis://u:hunter2%zz@h",
	"redis://hunter2@h", "redis://u:hunter2@a:1,b:2", "redis://u:hunter2@h/x", "redis://u:hunter2@h/-1", "redis://u:hunter2@h/01", "redis://u:hunter2@h/1/2",
	"redis+://u:hunter2@h", "redis+cluster://u:hunter2@h/1", "redis+cluster://u:hunter2@h,", "redis+cluster://u:hunter2@a,hunter2:hunter2", "redis+hunter2://h",
	"redis+sentinel://u:hunter2@h", "redis+sentinel://u:hunter2@h/", "redis+sentinel://u:hunter2@h/m/x", "redis+sentinel://u:hunter2@h//1",
	"redis://[::1:hunter2", "redis://[hunter2]", "redis://[1.2.3.4]", "redis://::1", "redis://a%20b",
	"redis://h?hunter2=1", "redis://h?ca-file=hunter2", "redis://h?sentinel-password=hunter2", "rediss://h?ca-file=", "rediss://h?ca-file=a&ca-file=b",
	"rediss://h?cert-file=hunter2", "rediss://h?key-file=hunter2", "redis://h?%zz=hunter2", "redis://h?a;b=hunter2",
}

func TestParseURLRefusesWithoutShowingThePassword(t *testing.T) {
	for _, raw := range wrongURLs {
		got, err := parseURL(raw)
		if err == nil {
			t.Errorf("%q is read as %+v", raw, got)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error shows the password: %v", raw, err)
		}
		if CheckURL(raw) == nil {
			t.Errorf("%q passes a check", raw)
		}
	}
	if err := CheckURL("redis+sentinel://u:hunter2@h/m"); err != nil {
		t.Errorf("a right one: %v", err)
	}
	if err := CheckURL("rediss://u:hunter2@h/?ca-file=" + filepath.Join(t.TempDir(), "none")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A URL that can be read has a host, and its parts make the same URL again.
func FuzzParseURL(f *testing.F) {
	for _, raw := range wrongURLs {
		f.Add(raw)
	}
	f.Add("rediss+sentinel://u:p@[::1]:1,b:2/m/4?sentinel-password=x&ca-file=y")
	f.Add("redis+cluster://:p%20w@a:1,b:2")
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseURL(raw)
		if err != nil {
			return
		}
		if len(got.addresses) == 0 || got.cluster && (got.master != "" || got.db != 0) {
			t.Fatalf("%q is read as %+v", raw, got)
		}
		again, err := parseURL(written(got))
		if err != nil {
			t.Fatalf("%q is read as %+v, which is written %q: %v", raw, got, written(got), err)
		}
		if d := cmp.Diff(got, again, cmp.AllowUnexported(target{})); d != "" {
			t.Fatalf("%q: %s", raw, d)
		}
	})
}

// written is a URL that says what t says.
func written(t target) string {
	u := "redis"
	if t.tls {
		u = "rediss"
	}
	switch {
	case t.cluster:
		u += "+cluster"
	case t.master != "":
		u += "+sentinel"
	}
	u += "://"
	if t.password != "" {
		u += strings.ReplaceAll(url.PathEscape(t.username), ":", "%3A") + ":" + url.PathEscape(t.password) + "@"
	}
	u += strings.Join(t.addresses, ",")
	if t.master != "" {
		u += "/" + url.PathEscape(t.master)
	}
	if t.db != 0 {
		u += "/" + strconv.Itoa(t.db)
	}
	q := url.Values{}
	for name, v := range map[string]string{
		"sentinel-username": t.sentinelUsername, "sentinel-password": t.sentinelPassword,
		"ca-file": t.caFile, "cert-file": t.certFile, "key-file": t.keyFile,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return u + "?" + q.Encode()
}
