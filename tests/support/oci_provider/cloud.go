package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
)

// resource is one that stands in the cloud: its type, and all its values with those that the cloud gives.
type resource struct {
	Type   string         `json:"type"`
	Values map[string]any `json:"values"`
}

// cloud is a file; each call reads it and leaves it whole.
type cloud struct {
	file string
	lock sync.Mutex
}

// made are OCIDs that this cloud gives.
var made = regexp.MustCompile(`^ocid1\.[a-z0-9]+\.oc1\.iad\.[0-9]{8}$`)

// content is what the file holds.
type content struct {
	Made      int                  `json:"made"`
	Resources map[string]*resource `json:"resources"`
}

// rule says why OCI refuses to make or change a resource; before is nil where it is made.
type rule func(there *content, before, wanted map[string]any) error

func refused(code, words string, more ...any) error {
	return fmt.Errorf("%s, %s", code, fmt.Sprintf(words, more...))
}

func (cloud *cloud) load() (*content, error) {
	found := &content{Resources: map[string]*resource{}}
	text, err := os.ReadFile(cloud.file)
	if errors.Is(err, os.ErrNotExist) {
		return found, nil
	}
	if err == nil {
		err = json.Unmarshal(text, found)
	}
	return found, err
}

func (cloud *cloud) save(there *content) error {
	text, err := json.MarshalIndent(there, "", " ")
	if err != nil {
		return err
	}
	part := cloud.file + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(part, cloud.file)
}

func (cloud *cloud) get(id string) (map[string]any, error) {
	cloud.lock.Lock()
	defer cloud.lock.Unlock()
	there, err := cloud.load()
	if err != nil || there.Resources[id] == nil {
		return nil, err
	}
	return there.Resources[id].Values, nil
}

// change has the cloud whole before and after, and as it was where `do` refuses.
func (cloud *cloud) change(do func(there *content) error) error {
	cloud.lock.Lock()
	defer cloud.lock.Unlock()
	there, err := cloud.load()
	if err == nil {
		err = do(there)
	}
	if err != nil {
		return err
	}
	return cloud.save(there)
}

func (cloud *cloud) create(kind string, values map[string]any) (map[string]any, error) {
	return values, cloud.change(func(there *content) error {
		if err := there.allows(kind, nil, values); err != nil {
			return err
		}
		there.Made++
		name := strings.ReplaceAll(strings.TrimPrefix(kind, "oci_"), "_", "")
		id := fmt.Sprintf("ocid1.%s.oc1.iad.%08d", name, there.Made)
		values["id"] = id
		if fill, isFilled := filled[kind]; isFilled {
			for key, value := range fill(there, values) {
				if values[key] == nil {
					values[key] = value
				}
			}
		}
		there.Resources[id] = &resource{Type: kind, Values: values}
		return nil
	})
}

func (cloud *cloud) update(id string, values map[string]any) (map[string]any, error) {
	return values, cloud.change(func(there *content) error {
		old := there.Resources[id]
		if old == nil {
			return refused("404-NotAuthorizedOrNotFound", "%s is not there", id)
		}
		if err := there.allows(old.Type, old.Values, values); err != nil {
			return err
		}
		old.Values = values
		return nil
	})
}

func (cloud *cloud) remove(id string) error {
	return cloud.change(func(there *content) error {
		if there.Resources[id] == nil {
			return nil
		}
		if err := there.isEmptied(id); err != nil {
			return err
		}
		if user := there.userOf(id); user != "" {
			return refused("409-Conflict", "%s cannot be deleted: %s uses it", id, user)
		}
		delete(there.Resources, id)
		return nil
	})
}

func (there *content) allows(kind string, before, wanted map[string]any) error {
	if err := there.knowsAll(wanted); err != nil {
		return err
	}
	if check, isRuled := rules[kind]; isRuled {
		return check(there, before, wanted)
	}
	return nil
}

// knowsAll refuses an OCID of this cloud that is of nothing.
func (there *content) knowsAll(values any) error {
	for _, id := range ids(values) {
		if there.Resources[id] == nil {
			return refused("404-NotAuthorizedOrNotFound", "%s is not there", id)
		}
	}
	return nil
}

// userOf is a resource that names this one; those that name it only in a text of a rule do not hold it.
func (there *content) userOf(id string) string {
	for other, each := range there.Resources {
		if other == id || each.Type == "oci_identity_dynamic_group" {
			continue
		}
		for _, named := range ids(each.Values) {
			if named == id {
				return other
			}
		}
	}
	return ""
}

// ids are whole values that are OCIDs made here, wherever they are.
func ids(value any) []string {
	var found []string
	switch value := value.(type) {
	case string:
		if made.MatchString(value) {
			found = append(found, value)
		}
	case []any:
		for _, each := range value {
			found = append(found, ids(each)...)
		}
	case map[string]any:
		for name, each := range value {
			if name != "id" {
				found = append(found, ids(each)...)
			}
		}
	}
	return found
}

// of are all of a type, by OCID.
func (there *content) of(kind string) map[string]map[string]any {
	found := map[string]map[string]any{}
	for id, each := range there.Resources {
		if each.Type == kind {
			found[id] = each.Values
		}
	}
	return found
}
