package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// traces are the forms in which a text shows in what a program writes: as it is,
// in hexadecimal, in base64 wherever it may stand in what was encoded, and as
// Go prints bytes.
func traces(text string) []string {
	b := []byte(text)
	forms := []string{text, hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), strings.Trim(fmt.Sprint(b), "[]")}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), b...))
		// The first and the last characters depend on what stands beside it.
		forms = append(forms, encoded[4*((before+2)/3):len(encoded)-2])
	}
	for _, form := range forms[4:] {
		forms = append(forms, strings.NewReplacer("+", "-", "/", "_").Replace(form))
	}
	return forms
}

// found lists the secrets, by name, of which an output holds a trace.
func found(secrets map[string]string, output []byte) (names []string) {
	for name, secret := range secrets {
		for _, form := range traces(secret) {
			if at := bytes.Index(output, []byte(form)); at >= 0 {
				names = append(names, fmt.Sprintf("%s, in %q", name, output[max(0, at-200):min(len(output), at+len(form)+60)]))
				break
			}
		}
	}
	return names
}

func TestTracesAreFound(t *testing.T) {
	const secret = "zq7fK2mX9wRt4LpB8vNc"
	for _, output := range []string{
		`{"secret":"` + secret + `"}`, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprint([]byte("a" + secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("a" + secret + "b")),
		base64.URLEncoding.EncodeToString([]byte("ab" + secret)), base64.StdEncoding.EncodeToString([]byte("user:pass:" + secret)),
		fmt.Sprintf("%q", "\n"+secret+"\x00"),
	} {
		if names := found(map[string]string{"it": secret}, []byte(output)); len(names) != 1 {
			t.Errorf("it is not found in %q", output)
		}
	}
	if names := found(map[string]string{"it": secret}, []byte(base64.StdEncoding.EncodeToString([]byte(strings.ToLower(secret))))); len(names) > 0 {
		t.Errorf("%v, which is not there", names)
	}
}

// folder reads all files of a folder.
func folder(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
