package resourcesync

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// member is a file of a package that a test makes.
type member struct {
	name, content string
	change        func(*zip.FileHeader)
	raw           bool // the header says all there is to say
}

// pack makes a ZIP file.
func pack(t testing.TB, members ...member) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		if strings.HasSuffix(m.name, "/") {
			h.Method = zip.Store
			h.SetMode(fs.ModeDir | 0o755)
		}
		if m.change != nil {
			m.change(h)
		}
		create := z.CreateHeader
		if m.raw {
			create = z.CreateRaw
		}
		w, err := create(h)
		if err == nil {
			_, err = io.WriteString(w, m.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func fileMode(m fs.FileMode) func(*zip.FileHeader) { return func(h *zip.FileHeader) { h.SetMode(m) } }

// fileSizes states sizes that need not be true.
func fileSizes(packed, unpacked uint64) func(*zip.FileHeader) {
	return func(h *zip.FileHeader) {
		h.CompressedSize64, h.UncompressedSize64, h.Method = packed, unpacked, zip.Deflate
	}
}

// wantDumpError checks kind, rule and words of an *Error.
func wantDumpError(t *testing.T, err error, kind ErrorKind, rule, msg string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want an *Error", err)
	} else if e.Kind != kind || e.Rule != rule || !strings.Contains(e.Error(), msg) {
		t.Errorf("got %v (%v), want a %v of %s that says %q", e, e.Kind, kind, rule, msg)
	}
}

// DOC-57: a package is refused before anything of it is unpacked, if it has a
// file that would not stay within it.
func TestUnsafePackages_DOC57(t *testing.T) {
	link := fileMode(fs.ModeSymlink | 0o777)
	for _, tc := range []struct {
		name    string
		members []member
		msg     string // empty if the package is good
	}{
		{"plain", []member{{name: "a"}, {name: "b/"}, {name: "b/c d/é..x/.y"}}, ""},
		{"absolute", []member{{name: "/etc/passwd"}}, "is absolute"},
		{"absolute folder", []member{{name: "/"}}, "is no path"},
		{"climbs", []member{{name: "../a"}}, "climbs with .."},
		{"climbs later", []member{{name: "a/b/../../../c"}}, "climbs with .."},
		{"folder that climbs", []member{{name: "a/../"}}, "climbs with .."},
		{"nothing but dots", []member{{name: ".."}}, "climbs with .."},
		{"a dot", []member{{name: "."}}, "a dot"},
		{"a dot within", []member{{name: "a/./b"}}, "a dot"},
		{"double slash", []member{{name: "a//b"}}, "is empty"},
		{"no name", []member{{name: ""}}, "is empty"},
		{"backslash", []member{{name: `..\a`}}, "backslash"},
		{"backslash within", []member{{name: `a\b`}}, "backslash"},
		{"drive", []member{{name: "C:/a"}}, "drive"},
		{"drive without a slash", []member{{name: "c:a"}}, "drive"},
		{"NUL", []member{{name: "a\x00.txt"}}, "NUL"},
		{"not UTF-8", []member{{name: "a\xff"}}, "not UTF-8"},
		{"as long as may be", []member{{name: strings.Repeat("a/", maxName/2-1) + "aa"}}, ""},
		{"one byte more", []member{{name: strings.Repeat("a/", maxName/2-1) + "aaa"}}, "more than 1024 bytes"},
		{"symbolic link", []member{{name: "a", content: "/etc", change: link}, {name: "a/passwd"}}, "neither a plain file nor a folder"},
		{"symbolic link with a slash", []member{{name: "a/", change: link}}, "neither a plain file nor a folder"},
		{"device", []member{{name: "a", change: fileMode(fs.ModeDevice)}}, "neither a plain file nor a folder"},
		{"named pipe", []member{{name: "a", change: fileMode(fs.ModeNamedPipe)}}, "neither a plain file nor a folder"},
		{"folder that is a file", []member{{name: "a", change: fileMode(fs.ModeDir)}}, "neither a plain file nor a folder"},
		{"twice", []member{{name: "a"}, {name: "b"}, {name: "a"}}, "two files named \"a\""},
		{"file and folder", []member{{name: "a"}, {name: "a/"}}, "both as a file and as a folder"},
		{"file and a file in it", []member{{name: "a/b/c"}, {name: "a/b"}}, "both as a file and as a folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := pack(t, tc.members...)
			_, err := openParcel(r, r.Size(), DefaultDumpLimits)
			if tc.msg != "" {
				wantDumpError(t, err, BadPackage, "DOC-57", tc.msg)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// DOC-36: what is no package, or one that cannot be read.
func TestBadPackages_DOC36(t *testing.T) {
	good := pack(t, member{name: "a", content: "abc"})
	whole, err := io.ReadAll(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"empty":      "",
		"no ZIP":     "hello, world, hello, world, hello, world",
		"broken off": string(whole[:len(whole)-1]),
		"gzip":       "\x1f\x8b\x08\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openParcel(strings.NewReader(bad), int64(len(bad)), DefaultDumpLimits)
			wantDumpError(t, err, BadPackage, "DOC-36", "no ZIP file")
		})
	}
	r := pack(t, member{name: "a", change: func(h *zip.FileHeader) { h.Flags |= 1 }, raw: true})
	_, err = openParcel(r, r.Size(), DefaultDumpLimits)
	wantDumpError(t, err, BadPackage, "DOC-36", "encrypted")
	r = pack(t, member{name: "a", change: func(h *zip.FileHeader) { h.Method = 12 }, raw: true})
	_, err = openParcel(r, r.Size(), DefaultDumpLimits)
	wantDumpError(t, err, BadPackage, "DOC-36", "method 12")

	broken := errors.New("broken")
	if _, err = openParcel(&breaking{err: broken}, 1000, DefaultDumpLimits); !errors.Is(err, broken) {
		t.Errorf("an error of the reader: %v", err)
	}
}

// DOC-36: bombs are seen by what their directory says.
func TestPackageLimits_DOC36(t *testing.T) {
	limits := DumpLimits{Files: 3, FileBytes: 10 << 20, Bytes: 25 << 20, Ratio: 100}
	tenth := strings.Repeat("x", 11<<10) // packed; a ratio of 100 allows for 1,100 KiB
	file := func(name string, unpacked uint64) member {
		return member{name: name, content: tenth, change: fileSizes(uint64(len(tenth)), unpacked), raw: true}
	}
	for _, tc := range []struct {
		name    string
		members []member
		msg     string
	}{
		{"as many files", []member{{name: "a"}, {name: "b/"}, {name: "c"}}, ""},
		{"one more", []member{{name: "a"}, {name: "b/"}, {name: "c"}, {name: "d"}}, "more than 3 files"},
		{"as large a file", []member{{name: "a", content: strings.Repeat(tenth, 10), change: fileSizes(uint64(10*len(tenth)), 10<<20), raw: true}}, ""},
		{"one byte more", []member{{name: "a", content: strings.Repeat(tenth, 10), change: fileSizes(uint64(10*len(tenth)), 10<<20+1), raw: true}}, "the limit is 10485760"},
		{"a size that is no int64", []member{file("a", 1<<64-2)}, "the limit is 10485760"},
		{"as high a ratio", []member{file("a", 1100<<10)}, ""},
		{"over the ratio", []member{file("a", 1101<<10)}, "more than 100 times the 11264"},
		{"any ratio for a small file", []member{{name: "a", content: "x", change: fileSizes(1, 1<<20), raw: true}}, ""},
		{"empty and large", []member{{name: "a", change: fileSizes(0, 2<<20), raw: true}}, "more than 100 times the 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := pack(t, tc.members...)
			_, err := openParcel(r, r.Size(), limits)
			if tc.msg != "" {
				wantDumpError(t, err, OverLimit, "DOC-36", tc.msg)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	var many []member
	for i := range 26 {
		many = append(many, file(fmt.Sprint(i), 1<<20))
	}
	limits.Files = 100
	r := pack(t, many[:25]...)
	if _, err := openParcel(r, r.Size(), limits); err != nil {
		t.Error(err)
	}
	r = pack(t, many...)
	_, err := openParcel(r, r.Size(), limits)
	wantDumpError(t, err, OverLimit, "DOC-36", "more than 26214400 bytes when it is unpacked")

	// Files of a mebibyte or less each, all of which are packed in the same place: only
	// the sum shows it.
	many = nil
	for i := range 12 {
		many = append(many, member{name: fmt.Sprint(i), change: fileSizes(0, 1<<20), raw: true})
	}
	r = pack(t, many...)
	_, err = openParcel(r, r.Size(), limits)
	wantDumpError(t, err, OverLimit, "DOC-36", "more than 100 times as much")
}

// counting counts what is read.
type counting struct {
	r io.ReaderAt
	n int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// DOC-36: a directory with more files than allowed is not read to its end.
func TestDirectoryIsFenced_DOC36(t *testing.T) {
	var many []member
	for i := range 100_000 {
		many = append(many, member{name: fmt.Sprint(i), raw: true})
	}
	r := pack(t, many...)
	c := &counting{r: r}
	_, err := openParcel(c, r.Size(), DumpLimits{Files: 10}.withDefaults())
	wantDumpError(t, err, OverLimit, "DOC-36", "more than 10 files")
	if c.n > fenceFixed+100*fencePerFile {
		t.Errorf("%d bytes of %d were read", c.n, r.Size())
	}
}
