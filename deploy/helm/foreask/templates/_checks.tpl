{{/* Rejects values that render but cannot work. Each message starts with the value's name. */}}
{{- define "foreask.checks" -}}
{{- include "foreask.checkModels" . -}}
{{- include "foreask.checkSecrets" . -}}
{{- include "foreask.checkStore" . -}}
{{- include "foreask.checkScaling" . -}}
{{- include "foreask.checkApis" . -}}
{{- include "foreask.checkNetwork" . -}}
{{- end }}

{{- define "foreask.checkNetwork" -}}
{{- $policy := .Values.networkPolicy -}}
{{- if and $policy.enabled (not $policy.enginePeers) (not .Values.try.enabled) -}}
{{- fail "networkPolicy.enginePeers: name PostgreSQL and Valkey, because pods that process untrusted files may reach nothing else; or set networkPolicy.enabled to false" -}}
{{- end -}}
{{- end }}

{{- define "foreask.checkModels" -}}
{{- range list "FOREASK_LLM_MODEL" "FOREASK_EMBEDDING_MODEL" -}}
{{- if not (index $.Values.settings .) }}{{ fail (printf "settings.%s: name the model" .) }}{{ end -}}
{{- end -}}
{{- if .Values.try.enabled -}}
{{- if .Values.settings.FOREASK_QDRANT_URL }}{{ fail "settings.FOREASK_QDRANT_URL: remove it, because try.enabled starts a Qdrant" }}{{ end -}}
{{- else if not .Values.settings.FOREASK_QDRANT_URL -}}
{{- fail "settings.FOREASK_QDRANT_URL: set the URL of Qdrant" -}}
{{- end -}}
{{- range $name, $_ := fromYaml (include "foreask.workloads" .) -}}
{{- $taken := dict -}}
{{- range concat $.Values.pods.extraEnv ((index $.Values $name).extraEnv | default list) -}}
{{- if or (hasPrefix "FOREASK_" .name) (hasKey $taken .name) (hasKey $.Values.settings .name) -}}
{{- fail (printf "%s.extraEnv: %s belongs to settings or secrets, or is set twice" $name .name) -}}
{{- end -}}
{{- $_ := set $taken .name true -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "foreask.checkSecrets" -}}
{{- $secrets := .Values.secrets -}}
{{- $makes := or $secrets.create .Values.try.enabled -}}
{{- if and $secrets.existingSecret $secrets.create }}{{ fail "secrets.create: secrets.existingSecret names a Secret, too; keep one of them" }}{{ end -}}
{{- if and $secrets.existingSecret .Values.try.enabled }}{{ fail "secrets.existingSecret: remove it, because try.enabled creates the Secret of its engines" }}{{ end -}}
{{- if and $secrets.values (not $makes) }}{{ fail "secrets.values: secrets.create is false, so these values would not be used" }}{{ end -}}
{{- if not (or $secrets.existingSecret $makes) }}{{ fail "secrets.existingSecret: name the Secret, or set secrets.create" }}{{ end -}}
{{- range $key, $_ := $secrets.from -}}
{{- if hasKey $secrets.values $key }}{{ fail (printf "secrets.from.%s: secrets.values has this key, too; keep one of them" $key) }}{{ end -}}
{{- end -}}
{{- if and $secrets.create (not .Values.try.enabled) -}}
{{- range list "FOREASK_OWNER_DATABASE_URL" "FOREASK_APP_DATABASE_URL" "FOREASK_PARSE_DATABASE_URL" "FOREASK_REDIS_URL" -}}
{{- if not (or (index $secrets.values .) (hasKey $secrets.from .)) }}{{ fail (printf "secrets.values.%s: set the URL" .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if .Values.try.enabled -}}
{{- range list "FOREASK_OWNER_DATABASE_URL" "FOREASK_APP_DATABASE_URL" "FOREASK_PARSE_DATABASE_URL" "FOREASK_REDIS_URL" "FOREASK_QDRANT_API_KEY" -}}
{{- if or (index $secrets.values .) (hasKey $secrets.from .) }}{{ fail (printf "secrets.values.%s: remove it, because try.enabled starts this engine" .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "foreask.checkStore" -}}
{{- $claim := .Values.store.claim -}}
{{- $ways := list -}}
{{- with .Values.store.url }}{{ $ways = append $ways "store.url" }}{{ end -}}
{{- with $claim.create }}{{ $ways = append $ways "store.claim.create" }}{{ end -}}
{{- with $claim.existing }}{{ $ways = append $ways "store.claim.existing" }}{{ end -}}
{{- if not $ways }}{{ fail "store.url: set the URL of an object store, or store.claim.create or store.claim.existing" }}{{ end -}}
{{- if gt (len $ways) 1 }}{{ fail (printf "%s: uploads have one location; keep one of %s" (first $ways) (join ", " $ways)) }}{{ end -}}
{{- if and (not .Values.store.url) (eq $claim.accessMode "ReadWriteOnce") -}}
{{- range $name, $workload := fromYaml (include "foreask.workloads" .) -}}
{{- if has $name (list "api" "parse") -}}
{{- if gt (include "foreask.mostPods" (dict "root" $ "name" $name "workload" $workload) | int) 1 -}}
{{- fail (printf "store.claim.accessMode: ReadWriteOnce allows one node, and so one pod of %s; use ReadWriteMany or store.url" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.store.url (not .Values.networkPolicy.storeCIDRs) -}}
{{- fail "networkPolicy.storeCIDRs: name the addresses of store.url, because parse pods reach nothing else outside of the cluster" -}}
{{- end -}}
{{- end }}

{{- define "foreask.checkScaling" -}}
{{- range $name, $workload := fromYaml (include "foreask.workloads" .) -}}
{{- $values := index $.Values $name -}}
{{- if include "foreask.isScaled" (dict "root" $ "name" $name "workload" $workload) -}}
{{- if gt (int $values.replicas) (int $values.maxReplicas) }}{{ fail (printf "%s.maxReplicas: it is less than %s.replicas" $name $name) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $keda := .Values.autoscaling.keda -}}
{{- if and (eq .Values.autoscaling.mode "keda") (eq $keda.trigger "prometheus") (not $keda.prometheusAddress) -}}
{{- fail "autoscaling.keda.prometheusAddress: set the address of Prometheus" -}}
{{- end -}}
{{- $sum := include "foreask.connections" . | int -}}
{{- if and (ne (.Values.settings.FOREASK_DATABASE_POOLER | default "none") "transaction") (gt $sum (int .Values.postgres.maxConnections)) -}}
{{- fail (printf "postgres.maxConnections: the pods may open %d connections during an update; raise PostgreSQL's max_connections and this value, or run fewer pods" $sum) -}}
{{- end -}}
{{- end }}

{{- define "foreask.checkApis" -}}
{{- $needed := dict -}}
{{- if eq .Values.autoscaling.mode "keda" }}{{ $_ := set $needed "autoscaling.mode" "keda.sh/v1alpha1" }}{{ end -}}
{{- if .Values.metrics.serviceMonitor.enabled }}{{ $_ := set $needed "metrics.serviceMonitor.enabled" "monitoring.coreos.com/v1" }}{{ end -}}
{{- if .Values.metrics.prometheusRule.enabled }}{{ $_ := set $needed "metrics.prometheusRule.enabled" "monitoring.coreos.com/v1" }}{{ end -}}
{{- if .Values.httpRoute.enabled }}{{ $_ := set $needed "httpRoute.enabled" "gateway.networking.k8s.io/v1" }}{{ end -}}
{{- range $value, $api := $needed -}}
{{- if not (include "foreask.hasApi" (dict "root" $ "api" $api)) -}}
{{- fail (printf "%s: the cluster has no API %s; install it, or name it in apiVersions if the chart is rendered without the cluster" $value $api) -}}
{{- end -}}
{{- end -}}
{{- range list "FOREASK_API_HOST" "FOREASK_METRICS_HOST" -}}
{{- if not (has (index $.Values.settings . | default "0.0.0.0") (list "0.0.0.0" "::")) }}{{ fail (printf "settings.%s: use 0.0.0.0 or ::, because probes and other pods connect to it" .) }}{{ end -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" (include "foreask.fullname" .)) }}{{ fail "nameOverride: set it, because Services cannot be named after this release: they need letters, digits and hyphens, and a letter first" }}{{ end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}{{ fail "ingress.hosts: name a host" }}{{ end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}{{ fail "httpRoute.parentRefs: name a Gateway" }}{{ end -}}
{{- end }}
