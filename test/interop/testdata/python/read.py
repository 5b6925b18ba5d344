"""Reads every document of a Source with the library resync, and prints a line for each.

It reads no index of Change Lists, so these are given beside.

Usage: read.py URL-of-the-Source URL-of-a-Change-List...
"""
import io
import sys
import urllib.request
import zipfile

from resync.archives import ChangeDumpArchive, ChangeListArchive, ResourceDumpArchive, ResourceListArchive
from resync.capability_list import CapabilityList
from resync.change_dump import ChangeDump
from resync.change_dump_manifest import ChangeDumpManifest
from resync.change_list import ChangeList
from resync.resource_dump import ResourceDump
from resync.resource_dump_manifest import ResourceDumpManifest
from resync.resource_list import ResourceList
from resync.source_description import SourceDescription

KINDS = {
    'resourcelist': ResourceList,
    'resourcedump': ResourceDump,
    'changedump': ChangeDump,
    'resourcelist-archive': ResourceListArchive,
    'resourcedump-archive': ResourceDumpArchive,
    'changelist-archive': ChangeListArchive,
    'changedump-archive': ChangeDumpArchive,
}
MANIFESTS = {'resourcedump': ResourceDumpManifest, 'changedump': ChangeDumpManifest}


def read(kind, url):
    """Read one document, and return it with a line about it printed."""
    document = kind()
    document.read(url)
    print(document.md.get('capability'), len(document.resources))
    return document


def manifest(kind, url):
    """Read the manifest of a package, and look for each file that it names."""
    with urllib.request.urlopen(url) as f:
        package = zipfile.ZipFile(io.BytesIO(f.read()))
    document = kind()
    document.parse(fh=io.BytesIO(package.read('manifest.xml')))
    for resource in document.resources:
        if resource.change != 'deleted':
            assert len(package.read(resource.path.lstrip('/'))) == resource.length, resource.path
    print(document.md.get('capability'), len(document.resources))


for url in sys.argv[2:]:
    read(ChangeList, url)
description = read(SourceDescription, sys.argv[1].rstrip('/') + '/.well-known/resourcesync')
for capabilities in [read(CapabilityList, r.uri) for r in description]:
    for capability in capabilities:
        kind = KINDS.get(capability.capability)
        if kind is None:
            continue  # change-notification and the like, which the library does not know
        document = read(kind, capability.uri)
        if capability.capability in MANIFESTS:
            for package in document.resources:
                manifest(MANIFESTS[capability.capability], package.uri)
