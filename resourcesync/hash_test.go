package resourcesync

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// The digests of "abc", as FIPS 180-4 and RFC 1321 print them.
const (
	abcMD5    = "md5:900150983cd24fb0d6963f7d28e17f72"
	abcSHA1   = "sha-1:a9993e364706816aba3e25717850c26c9cd0d89d"
	abcSHA256 = "sha-256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	abcSHA384 = "sha-384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"
	abcSHA512 = "sha-512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
	abcAll    = abcMD5 + " " + abcSHA1 + " " + abcSHA256 + " " + abcSHA384 + " " + abcSHA512
	zeroMD5   = "md5:00000000000000000000000000000000"
)

// DOC-55: the digests of all algorithms in one pass, in whatever chunks.
func TestHasher_DOC55(t *testing.T) {
	h := NewHasher(SHA512, MD5, SHA256, SHA1, SHA384, MD5)
	if n, err := io.Copy(h, iotest.OneByteReader(strings.NewReader("abc"))); n != 3 || err != nil || h.Length() != 3 {
		t.Errorf("%d bytes, %v, %d counted", n, err, h.Length())
	}
	if got := h.Digests().String(); got != abcAll {
		t.Errorf("%s, want %s", got, abcAll)
	}
	if h.Digests() != ParseHashes(abcAll) {
		t.Error("the digests are not equal to the same ones read")
	}
	count := NewHasher()
	_, _ = count.Write([]byte("abcd"))
	if count.Length() != 4 || count.Digests() != (Digests{}) || count.Digests().String() != "" {
		t.Errorf("without algorithms: %d bytes, %q", count.Length(), count.Digests())
	}
}

// DOC-55: hashes are parsed leniently.
func TestParseHashes_DOC55(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"one", abcMD5, abcMD5},
		{"all, in any order", abcSHA512 + " " + abcSHA256 + " " + abcMD5 + " " + abcSHA384 + " " + abcSHA1, abcAll},
		{"white space of all kinds", "\n\t " + abcMD5 + " \r\n\t" + abcSHA256 + "\n", abcMD5 + " " + abcSHA256},
		{"upper case", strings.ToUpper(abcMD5 + " " + abcSHA256), abcMD5 + " " + abcSHA256},
		{"none", " ", ""},
		{"unknown algorithm", "crc32:12345678 " + abcSHA256 + " sha-3:00", abcSHA256},
		{"no colon", strings.ReplaceAll(abcMD5, ":", ""), ""},
		{"no digest", "md5: " + abcSHA1, abcSHA1},
		{"MD5 in base64, as old libraries wrote it", "md5:kAFQmDzST7DWlj99KOF/cg==", ""},
		{"digest of the specification that is no hex", "sha-256:f4OxZX_x_DFGFDgghgdfb6rtSx-iosjf6735432nklj", ""},
		{"digest with a letter that is no digit", strings.Replace(abcMD5, "9", "g", 1), ""},
		{"digest too short", abcSHA256[:len(abcSHA256)-2], ""},
		{"digest of another algorithm's length", "md5:" + strings.TrimPrefix(abcSHA1, "sha-1:"), ""},
		{"twice the same", abcMD5 + " " + strings.ToUpper(abcMD5), abcMD5},
		{"twice and different", abcMD5 + " " + zeroMD5 + " " + abcMD5 + " " + abcSHA1, abcSHA1},
		{"once good, once not hex", abcMD5 + " md5:kAFQmDzST7DWlj99KOF/cg==", abcMD5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := ParseHashes(tc.in)
			if got := d.String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			// Only parsing notices digests that contradict each other.
			if has := hasDigest(tc.in); has != (d != Digests{}) {
				t.Errorf("has a digest: %v", has)
			}
			if again := ParseHashes(d.String()); again != d {
				t.Errorf("read again: %q", again)
			}
		})
	}
}

// DOC-55: only recognised algorithms that both have decide, each with a veto.
func TestCompare_DOC55(t *testing.T) {
	zeroSHA256 := "sha-256:" + strings.Repeat("0", 64)
	for _, tc := range []struct {
		a, b string
		want Comparison
	}{
		{"", "", CannotTell},
		{abcAll, "", CannotTell},
		{abcMD5, abcSHA256, CannotTell},
		{"md5:kAFQmDzST7DWlj99KOF/cg==", "md5:kAFQmDzST7DWlj99KOF/cg==", CannotTell},
		{"crc32:00000000", "crc32:00000000", CannotTell},
		{abcAll, abcMD5, Equal},
		{abcMD5, strings.ToUpper(abcMD5), Equal},
		{abcMD5 + " " + abcSHA1, abcSHA1 + " " + abcSHA512, Equal},
		{abcMD5, zeroMD5, Different},
		{abcMD5 + " " + zeroSHA256, abcMD5 + " " + abcSHA256, Different},
		{zeroMD5 + " " + abcSHA256, abcMD5 + " " + abcSHA256, Different},
	} {
		for _, pair := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			if got := ParseHashes(pair[0]).Compare(ParseHashes(pair[1])); got != tc.want {
				t.Errorf("%q with %q: %v, want %v", pair[0], pair[1], got, tc.want)
			}
		}
	}
}

func TestDigests(t *testing.T) {
	d := ParseHashes(abcSHA256 + " " + abcMD5)
	if got := d.Algorithms(); !slices.Equal(got, []Algorithm{MD5, SHA256}) {
		t.Errorf("algorithms %v", got)
	}
	sum := d.Sum(MD5)
	if len(sum) != 16 || sum[0] != 0x90 || d.Sum(SHA1) != nil || d.Sum(algorithmCount) != nil {
		t.Errorf("sums %x, %x", sum, d.Sum(SHA1))
	}
	sum[0] = 0
	if d != ParseHashes(abcSHA256+" "+abcMD5) {
		t.Error("the sum was not the caller's own")
	}
	for got, want := range map[string]string{
		SHA384.String(): "sha-384", Algorithm(9).String(): "Algorithm(9)", CannotTell.String(): "cannot tell", Comparison(7).String(): "Comparison(7)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is read is written in a form that is read as the same, and says of itself
// that it is equal.
func FuzzParseHashes(f *testing.F) {
	for _, s := range []string{abcAll, abcMD5 + "\n\t" + zeroMD5, "MD5:900150983CD24FB0D6963F7D28E17F72", "md5:kAFQmDzST7DWlj99KOF/cg==", ":", "a:b: c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := ParseHashes(s)
		if again := ParseHashes(d.String()); again != d {
			t.Fatalf("%q: %q, read again %q", s, d, again)
		}
		want := Equal
		if d == (Digests{}) {
			want = CannotTell
		}
		if got := d.Compare(d); got != want {
			t.Fatalf("%q with itself: %v", s, got)
		}
	})
}
