package source

import "testing"

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
		if got := acceptsGzip([]string{accept}); got != want {
			t.Errorf("acceptsGzip(%q) = %v, want %v", accept, got, want)
		}
	}
	if !acceptsGzip([]string{"br", "gzip"}) {
		t.Error("the second line of Accept-Encoding does not count")
	}
}
