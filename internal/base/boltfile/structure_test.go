package boltfile

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each page of a file is used once or free. Open refuses other files and says what is wrong.
func TestPagesThatAreNotInTheirPlace(t *testing.T) {
	whole, _, _ := made(t, rand.New(rand.NewPCG(5, 6)), true)
	m, err := readMeta(bytes.NewReader(whole), 0)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := readMeta(bytes.NewReader(whole), int64(m.pageSize)); err != nil {
		t.Fatal(err)
	} else if other.txid > m.txid {
		m = other
	}
	page := func(b []byte, id uint64) []byte { return b[int(id)*m.pageSize:][:m.pageSize] }
	free := func(b []byte) []byte { return page(b, m.freelist) }
	if n := native.Uint16(free(whole)[10:]); n < 2 || n == 0xFFFF {
		t.Fatalf("%d pages are free", n)
	}
	// branch returns a page that leads to several others.
	branch := func(b []byte) []byte {
		for _, at := range innerPages(b) {
			p := b[at:][:m.pageSize]
			if isFree := bytes.Contains(free(b)[headSize:], native.AppendUint64(nil, uint64(at/m.pageSize))); !isFree && native.Uint16(p[8:]) == kindBranch {
				return p
			}
		}
		t.Fatal("there is no branch")
		return nil
	}
	child := func(p []byte, i int) []byte { return p[headSize+i*elementSize+8:] }
	for want, damage := range map[string]func(b []byte){
		"is used twice":                        func(b []byte) { copy(child(branch(b), 1)[:8], child(branch(b), 0)) },
		"page 0 is used twice":                 func(b []byte) { native.PutUint64(free(b)[headSize:], 0) },
		"1 pages are neither used nor free":    func(b []byte) { native.PutUint16(free(b)[10:], native.Uint16(free(b)[10:])-1) },
		"is beyond the end":                    func(b []byte) { native.PutUint64(child(branch(b), 0), m.high) },
		"says that it is page 9999":            func(b []byte) { native.PutUint64(free(b), 9999) },
		"is no list of free pages":             func(b []byte) { native.PutUint16(free(b)[8:], kindLeaf) },
		"is no page of a tree":                 func(b []byte) { native.PutUint16(page(b, native.Uint64(child(branch(b), 0)))[8:], kindFreelist) },
		"an element is not where it has to be": func(b []byte) { native.PutUint32(branch(b)[headSize:], 1) },
		"an element is larger than its page": func(b []byte) {
			native.PutUint32(branch(b)[headSize+(int(native.Uint16(branch(b)[10:]))-1)*elementSize+4:], maxKeySize)
		},
		"the checksum of a meta page is wrong": func(b []byte) { b[headSize+48]++ },
	} {
		b := bytes.Clone(whole)
		damage(b)
		path := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(path, options())
		if err == nil {
			_ = d.Close()
		}
		if !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
