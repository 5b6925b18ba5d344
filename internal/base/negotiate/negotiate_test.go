package negotiate

import (
	"net/http"
	"testing"
)

func TestTakesGzip(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                             false,
		"identity":                     false,
		"gzip":                         true,
		"x-gzip":                       true,
		"GZIP;q=0.5":                   true,
		"gzip;q=0":                     false,
		"gzip; q=0.0":                  false,
		"gzip;q=2":                     false,
		"gzip;q=NaN":                   false,
		"deflate, br":                  false,
		"*":                            true,
		"*;q=0":                        false,
		"gzip;q=0, *":                  false,
		"*, gzip;q=0":                  false,
		"deflate, gzip;q=1.0, *;q=0.5": true,
		"identity;q=1, gzip;q=0.5":     false,
		"identity;q=0.5, gzip;q=0.5":   true,
		"gzip, deflate, br, zstd":      true,
		"identity, *;q=0":              false,
		"gzip;quality=1":               true,
		", ,gzip":                      true,
	} {
		if got := Gzip(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("Gzip(%q) = %v, want %v", accept, got, want)
		}
	}
	if !Gzip(http.Header{"Accept-Encoding": {"br", "gzip"}}) {
		t.Error("the second line of Accept-Encoding does not count")
	}
}

func TestAccepts(t *testing.T) {
	for accept, want := range map[string]bool{
		"*/*": true, "application/xml": true, "text/xml": true, "application/*;q=0.1": true, "text/html,*/*;q=0.8": true,
		"": true, " , ": true, ",text/xml": true, // an empty element says nothing
		"application/json": false, "*/*;q=0": false, "application/xml;q=0, */*": true, "application/xml;q=0,text/xml;q=0,*/*": false,
	} {
		if got := Media(http.Header{"Accept": {accept}}).Accepts("application/xml", "text/xml"); got != want {
			t.Errorf("%q: %t, want %t", accept, got, want)
		}
	}
	if !Media(http.Header{}).Accepts("application/xml") {
		t.Error("without Accept nothing is taken")
	}
}

// An Accept header never makes two things of one request.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"", "*/*", "text/html;q=0.5,*/*;q=0.1", ",;,;q=", "text/plain;q=1.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := Media(http.Header{"Accept": {s}})
		if len(a) > maxRanges {
			t.Errorf("%d ranges", len(a))
		}
		if len(a) == 0 && !a.Accepts("text/html") {
			t.Errorf("%q takes nothing", s)
		}
		for _, m := range []string{"text/html", "text/plain", "application/json"} {
			if q := a.Quality(m); !(q >= 0 && q <= 1) {
				t.Errorf("%q has the quality %v for %s", s, q, m)
			}
		}
	})
}
