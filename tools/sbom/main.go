// Command sbom writes a list of the Go modules that programs were built from, as SPDX 2.3 in JSON,
// to standard output. It reads the list from the programs themselves. Equal programs and arguments
// give equal bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// document is an SPDX document.
type document struct {
	Version      string         `json:"spdxVersion"`
	License      string         `json:"dataLicense"`
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Namespace    string         `json:"documentNamespace"`
	Creation     creation       `json:"creationInfo"`
	Packages     []entry        `json:"packages"`
	Relationship []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// entry is a program or a module.
type entry struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo,omitempty"`
	Location  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []ref      `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	log.SetFlags(0)
	version := flag.String("version", "dev", "`VERSION` of the programs")
	created := flag.Int64("created", 0, "`SECONDS` since 1970 at which the list counts as made")
	flag.Parse()
	d, err := describe(flag.Args(), *version, time.Unix(*created, 0).UTC())
	if err != nil {
		log.Fatal("sbom: ", err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(d); err != nil {
		log.Fatal("sbom: ", err)
	}
}

// describe lists programs and the modules in them.
func describe(programs []string, version string, created time.Time) (*document, error) {
	d := &document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "rshub " + version,
		Creation: creation{created.Format(time.RFC3339), []string{"Tool: rshub-sbom"}},
	}
	all := sha256.New()
	modules := map[string]entry{}
	for _, name := range programs {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		all.Write(sum[:])
		base := filepath.Base(name)
		program := entry{
			ID: "SPDXRef-" + base, Name: base, Version: version, Location: "NOASSERTION",
			Checksums: []checksum{{"SHA256", fmt.Sprintf("%x", sum)}},
		}
		d.Packages = append(d.Packages, program)
		d.Relationship = append(d.Relationship, relationship{d.ID, "DESCRIBES", program.ID})
		add := func(path, version string) {
			m := module(path, version)
			modules[m.ID] = m
			d.Relationship = append(d.Relationship, relationship{program.ID, "CONTAINS", m.ID})
		}
		add("std", strings.TrimPrefix(info.GoVersion, "go"))
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			add(m.Path, m.Version)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		d.Packages = append(d.Packages, modules[id])
	}
	d.Namespace = fmt.Sprintf("https://github.com/rshub/rshub/sbom/%x", all.Sum(nil))
	return d, nil
}

// module describes a module.
func module(path, version string) entry {
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, path+"-"+version)
	return entry{
		ID: "SPDXRef-" + id, Name: path, Version: version, Location: "NOASSERTION",
		Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
}
