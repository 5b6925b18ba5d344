package websub

import (
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// The test vectors of RFC 4231 (case 2) and RFC 2202 (case 2).
var vectors = map[SignatureMethod]string{
	SHA1:   "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
	SHA256: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
	SHA384: "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
	SHA512: "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
}

const (
	vectorKey  = "Jefe"
	vectorBody = "what do ya want for nothing?"
)

func TestSign_HUB45(t *testing.T) {
	for m, digits := range vectors {
		if got := m.Sign(vectorKey, []byte(vectorBody)); got != string(m)+"="+digits {
			t.Errorf("%s: %s", m, got)
		}
		if got, err := ParseSignatureMethod(string(m)); got != m || err != nil {
			t.Error(got, err)
		}
	}
	for _, s := range []string{"", "md5", "SHA256", "sha224", "sha256 ", strings.Repeat("x", 9999)} {
		if m, err := ParseSignatureMethod(s); err == nil || m != "" || len(err.Error()) > 120 {
			t.Errorf("%.20q: %q, %v", s, m, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown method signs")
		}
	}()
	SignatureMethod("").Sign("s", nil)
}

func TestVerifySignature_DST13(t *testing.T) {
	sha256 := vectors[SHA256]
	for m, digits := range vectors {
		for _, header := range []string{string(m) + "=" + digits, string(m) + "=" + strings.ToUpper(digits)} {
			if err := VerifySignature(header, vectorKey, []byte(vectorBody)); err != nil {
				t.Errorf("%s: %v", header, err)
			}
			if err := VerifySignature(header, vectorKey, []byte(vectorBody), m); err != nil {
				t.Errorf("%s: %v", header, err)
			}
		}
	}
	for _, test := range []struct {
		header, secret, body string
		want                 error
	}{
		{"", vectorKey, vectorBody, ErrSignatureMissing},
		{"sha256", vectorKey, vectorBody, ErrSignatureMalformed},
		{"sha256=", vectorKey, vectorBody, ErrSignatureMalformed},
		{"sha256=" + sha256[1:], vectorKey, vectorBody, ErrSignatureMalformed},
		{"sha256=" + sha256[2:], vectorKey, vectorBody, ErrSignatureMalformed},
		{"sha256=" + sha256 + "00", vectorKey, vectorBody, ErrSignatureMalformed},
		{"sha256=g" + sha256[1:], vectorKey, vectorBody, ErrSignatureMalformed},
		{"sha1=" + sha256, vectorKey, vectorBody, ErrSignatureMalformed},
		{"md5=" + sha256, vectorKey, vectorBody, ErrSignatureMethod},
		{"=" + sha256, vectorKey, vectorBody, ErrSignatureMethod},
		{strings.Repeat("\x80", 99) + "=" + sha256, vectorKey, vectorBody, ErrSignatureMethod},
		{"sha256=" + sha256, "jefe", vectorBody, ErrSignatureMismatch},
		{"sha256=" + sha256, vectorKey, vectorBody + "\n", ErrSignatureMismatch},
		{"sha256=0" + sha256[1:], vectorKey, vectorBody, ErrSignatureMismatch},
		{SHA256.Sign("", []byte(vectorBody)), "", vectorBody, ErrSignatureSecret},
	} {
		if err := VerifySignature(test.header, test.secret, []byte(test.body)); !errors.Is(err, test.want) {
			t.Errorf("%q: %v, want %v", test.header, err, test.want)
		}
	}
	// The receiver may ask for more than sha1.
	err := VerifySignature("sha1="+vectors[SHA1], vectorKey, []byte(vectorBody), SHA256, SHA512)
	if !errors.Is(err, ErrSignatureMethod) {
		t.Error(err)
	}
}

func FuzzVerifySignature(f *testing.F) {
	f.Add("sha256="+vectors[SHA256], vectorKey, []byte(vectorBody))
	f.Add("sha1="+vectors[SHA1], vectorKey, []byte(vectorBody))
	f.Add("sha512=", "", []byte(nil))
	f.Add("==", "x", []byte("y"))
	f.Add(strings.Repeat("\x9d", 30)+"=", "x", []byte("y"))
	f.Fuzz(func(t *testing.T, header, secret string, body []byte) {
		err := VerifySignature(header, secret, body)
		if err != nil {
			named := false
			for _, e := range []error{ErrSignatureMissing, ErrSignatureMalformed, ErrSignatureMethod, ErrSignatureMismatch, ErrSignatureSecret} {
				named = named || errors.Is(err, e)
			}
			if !named {
				t.Fatalf("%q: an error of no kind: %v", header, err)
			}
		} else if name, _, _ := strings.Cut(header, "="); SignatureMethod(name).Sign(secret, body) != strings.ToLower(header) {
			t.Fatalf("accepted %q", header)
		}
		for _, m := range []SignatureMethod{SHA1, SHA256, SHA384, SHA512} {
			if err := VerifySignature(m.Sign(secret, body), secret, body); err != nil && secret != "" {
				t.Fatalf("%s: own signature: %v", m, err)
			}
		}
	})
}

// HUB-24: 128 bits at least, in letters that no query changes.
func TestNewChallenge_HUB24(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		c := NewChallenge()
		// Base 32 has 5 bits in a character.
		if len(c)*5 < 128 || strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || escape(c) != c || seen[c] {
			t.Fatal(c)
		}
		seen[c] = true
	}
}

func BenchmarkSign1KB(b *testing.B) {
	body := make([]byte, 1024)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		SHA256.Sign("0123456789abcdef", body)
	}
}

// Signatures are those of crypto/hmac, whatever the secret, the body and what was signed before.
func TestSignIsHMAC(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for m, h := range hashes {
		for _, n := range []int{0, 1, 20, 63, 64, 65, 127, 128, 129, 200, 1000} {
			secret, body := text(n), text(rnd.IntN(300))
			mac := hmac.New(h, secret)
			mac.Write(body)
			if got, want := m.Sign(string(secret), body), string(m)+"="+hex.EncodeToString(mac.Sum(nil)); got != want {
				t.Errorf("%s with a secret of %d bytes: %s, want %s", m, n, got, want)
			}
		}
	}
}
