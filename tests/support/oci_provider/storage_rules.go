package main

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"
)

var (
	bucketName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,256}$`)
	lustreName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,7}$`)
	linkPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]+:/[A-Za-z0-9._-]+(/.*)?$`)
)

func bucketRule(there *content, _, wanted map[string]any) error {
	if !bucketName.MatchString(text(wanted, "name")) {
		return refused("400-InvalidBucketName", "name %q", text(wanted, "name"))
	}
	if len(there.others("oci_objectstorage_bucket", "name", wanted)) > 0 {
		return refused("409-BucketAlreadyExists", "bucket %q is there already", text(wanted, "name"))
	}
	return nil
}

func objectRule(there *content, _, wanted map[string]any) error {
	if !there.hasNamed("oci_objectstorage_bucket", text(wanted, "bucket")) {
		return refused("404-BucketNotFound", "no bucket %q", text(wanted, "bucket"))
	}
	if text(wanted, "object") == "" || len(text(wanted, "object")) > 1024 {
		return refused("400-InvalidObjectName", "object %q", text(wanted, "object"))
	}
	source := text(wanted, "source")
	if (source == "") == (text(wanted, "content") == "") {
		return refused("400-InvalidParameter", "object %q has one of source and content", text(wanted, "object"))
	}
	if source != "" {
		if _, err := os.Stat(source); err != nil {
			return err
		}
	}
	for _, other := range there.others("oci_objectstorage_object", "object", wanted) {
		if text(there.Resources[other].Values, "bucket") == text(wanted, "bucket") {
			return refused("412-IfNoneMatchFailed", "object %q is there already", text(wanted, "object"))
		}
	}
	return nil
}

// requestRule: kinds of access and what each names (Object Storage, using pre-authenticated requests).
func requestRule(there *content, before, wanted map[string]any) error {
	if !there.hasNamed("oci_objectstorage_bucket", text(wanted, "bucket")) {
		return refused("404-BucketNotFound", "no bucket %q", text(wanted, "bucket"))
	}
	access, named := text(wanted, "access_type"), text(wanted, "object_name")
	if !isOneOf(access, "ObjectRead", "ObjectWrite", "ObjectReadWrite", "AnyObjectRead", "AnyObjectWrite", "AnyObjectReadWrite") {
		return refused("400-InvalidParameter", "access_type %q", access)
	}
	if !strings.HasPrefix(access, "Any") && named == "" {
		return refused("400-InvalidParameter", "access_type %q needs an object_name", access)
	}
	ends, err := time.Parse(time.RFC3339, text(wanted, "time_expires"))
	if err != nil || ends.Before(time.Now()) {
		return refused("400-InvalidParameter", "time_expires %q", text(wanted, "time_expires"))
	}
	return nil
}

// mostMountTargets is what a tenancy has in one availability domain before it asks for more.
const mostMountTargets = 2

func mountTargetRule(there *content, _, wanted map[string]any) error {
	if len(there.others("oci_file_storage_mount_target", "availability_domain", wanted)) >= mostMountTargets {
		return refused("400-LimitExceeded", "mount targets of %s", text(wanted, "availability_domain"))
	}
	return inDomain(there, nil, wanted)
}

func exportRule(there *content, _, wanted map[string]any) error {
	if !strings.HasPrefix(text(wanted, "path"), "/") {
		return refused("400-InvalidParameter", "path %q", text(wanted, "path"))
	}
	for _, other := range there.others("oci_file_storage_export", "export_set_id", wanted) {
		if text(there.Resources[other].Values, "path") == text(wanted, "path") {
			return refused("409-Conflict", "path %q is exported already", text(wanted, "path"))
		}
	}
	files := there.Resources[text(wanted, "file_system_id")].Values
	for _, target := range there.of("oci_file_storage_mount_target") {
		isOf := text(target, "export_set_id") == text(wanted, "export_set_id")
		if isOf && text(target, "availability_domain") != text(files, "availability_domain") {
			return refused("400-InvalidParameter", "file system and mount target are in different availability domains")
		}
	}
	for _, option := range blocks(wanted, "export_options") {
		if _, err := netip.ParsePrefix(text(option, "source")); err != nil {
			return refused("400-InvalidParameter", "source %q of an export option", text(option, "source"))
		}
	}
	return nil
}

// lustreRule: sizes in steps of 10,400 GB from 31,200 GB, and of 41,600 GB from 124,800 GB on (OCI, File Storage
// with Lustre: creating a file system).
func lustreRule(there *content, before, wanted map[string]any) error {
	if !lustreName.MatchString(text(wanted, "file_system_name")) {
		return refused("400-InvalidParameter", "file_system_name %q: at most 8 letters and digits", text(wanted, "file_system_name"))
	}
	size := int(number(wanted, "capacity_in_gbs"))
	step := 10400
	if size > 124800 {
		step = 41600
	}
	if size < 31200 || size%step != 0 {
		return refused("400-InvalidParameter", "capacity_in_gbs %d", size)
	}
	if before != nil && size < int(number(before, "capacity_in_gbs")) {
		return refused("400-InvalidParameter", "a file system does not become smaller")
	}
	tiers := []string{"MBPS_PER_TB_125", "MBPS_PER_TB_250", "MBPS_PER_TB_500", "MBPS_PER_TB_1000"}
	if !isOneOf(text(wanted, "performance_tier"), tiers...) {
		return refused("400-InvalidParameter", "performance_tier %q", text(wanted, "performance_tier"))
	}
	return inDomain(there, nil, wanted)
}

func linkRule(_ *content, _, wanted map[string]any) error {
	if !linkPrefix.MatchString(text(wanted, "object_storage_prefix")) {
		return refused("400-InvalidParameter", "object_storage_prefix %q", text(wanted, "object_storage_prefix"))
	}
	if !strings.HasPrefix(text(wanted, "file_system_path"), "/") {
		return refused("400-InvalidParameter", "file_system_path %q", text(wanted, "file_system_path"))
	}
	return nil
}

// isEmptied refuses to delete a bucket that holds objects: they name it, and have no OCID of it.
func (there *content) isEmptied(id string) error {
	if there.Resources[id].Type != "oci_objectstorage_bucket" {
		return nil
	}
	for _, request := range there.of("oci_objectstorage_preauthrequest") {
		if text(request, "bucket") == text(there.Resources[id].Values, "name") {
			return refused("409-BucketNotEmpty", "bucket %q has request %s", text(request, "bucket"), text(request, "name"))
		}
	}
	for _, object := range there.of("oci_objectstorage_object") {
		if text(object, "bucket") == text(there.Resources[id].Values, "name") {
			return refused("409-BucketNotEmpty", "bucket %q holds %s", text(object, "bucket"), text(object, "object"))
		}
	}
	return nil
}
