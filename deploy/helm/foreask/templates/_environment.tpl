{{- define "foreask.secretName" -}}
{{- .Values.secrets.existingSecret | default (include "foreask.fullname" .) -}}
{{- end }}

{{/*
Variables of a process as a map: `plain` has values, `secret` has keys of the Secret. A key with `?` may be missing.
Arguments: root, name, workload.
*/}}
{{- define "foreask.variables" -}}
{{- $root := .root -}}
{{- $plain := dict "FOREASK_DATA_DIR" "/data" "FOREASK_METRICS_PORT" "9350" "FOREASK_METRICS_HOST" "0.0.0.0" -}}
{{- $given := $root.Values.settings -}}
{{- if .workload.confined -}}
{{- $names := fromYamlArray (include "foreask.confinedSettings" $root) -}}
{{- $few := dict "FOREASK_PARSE_ISOLATION" "require" -}}
{{- range $name, $value := $given -}}
{{- if or (has $name $names) (hasPrefix "FOREASK_TUNING__" $name) (hasPrefix "OTEL_" $name) }}{{ $_ := set $few $name $value }}{{ end -}}
{{- end -}}
{{- $given = $few -}}
{{- else if $root.Values.try.enabled -}}
{{- $_ := set $plain "FOREASK_QDRANT_URL" (printf "http://%s-qdrant:6333" (include "foreask.fullname" $root)) -}}
{{- end -}}
{{- range $name, $value := omit $given "FOREASK_API_DRAIN" "FOREASK_API_HOST" }}{{ $_ := set $plain $name (include "foreask.text" $value) }}{{ end -}}
{{- if and .workload.uploads $root.Values.store.url }}{{ $_ := set $plain "FOREASK_STORE_URL" $root.Values.store.url }}{{ end -}}
{{- $secret := dict "FOREASK_REDIS_URL" "FOREASK_REDIS_URL" -}}
{{- $_ := set $secret "FOREASK_DATABASE_URL" (.workload.confined | ternary "FOREASK_PARSE_DATABASE_URL" "FOREASK_APP_DATABASE_URL") -}}
{{- if .workload.uploads }}{{ $_ := set $secret "FOREASK_STORE_OPTIONS" "FOREASK_STORE_OPTIONS?" }}{{ end -}}
{{- range .workload.secrets }}{{ $_ := set $secret (printf "FOREASK_%s" .) (printf "FOREASK_%s?" .) }}{{ end -}}
{{- if not .workload.confined -}}
{{- if and (eq $root.Values.autoscaling.mode "keda") (not (hasKey $given "FOREASK_WORKERS_MAX")) -}}
{{- $most := 1 -}}
{{- range list "parse" "read" "generate" "index" }}{{ $most = max $most (index $root.Values .).maxReplicas }}{{ end -}}
{{- $_ := set $plain "FOREASK_WORKERS_MAX" (toString $most) -}}
{{- end -}}
{{- end -}}
{{- if eq .name "api" -}}
{{- $_ := set $plain "FOREASK_API_HOST" (include "foreask.text" ($given.FOREASK_API_HOST | default "0.0.0.0")) -}}
{{- $_ := set $plain "FOREASK_API_PORT" "8350" -}}
{{- $_ := set $plain "FOREASK_API_DRAIN" (include "foreask.drainSeconds" $root) -}}
{{- $_ := set $secret "FOREASK_API_KEYS" "FOREASK_API_KEYS" -}}
{{- $_ := set $secret "FOREASK_OPERATOR_KEYS" "FOREASK_OPERATOR_KEYS?" -}}
{{- end -}}
{{- toYaml (dict "plain" $plain "secret" $secret) -}}
{{- end }}

{{/* A list of environment variables. Arguments: root, plain, secret, extra. */}}
{{- define "foreask.envOf" -}}
{{- $root := .root -}}
{{- range $name, $value := .plain }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $key := .secret }}
{{- $required := trimSuffix "?" $key }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {{- include "foreask.keyOf" (dict "root" $root "key" $required) | nindent 6 }}
      {{- if ne $required $key }}
      optional: true
      {{- end }}
{{- end }}
{{- with .extra }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The Secret and its key that contain a secret. Arguments: root, key. */}}
{{- define "foreask.keyOf" -}}
{{- $from := index .root.Values.secrets.from .key | default (dict "name" (include "foreask.secretName" .root) "key" .key) -}}
name: {{ $from.name }}
key: {{ $from.key }}
{{- end }}

{{/* Changes if a Secret that the cluster has changes, so that pods are replaced. Without a cluster it is constant. */}}
{{- define "foreask.secretsChecksum" -}}
{{- $names := list .Values.secrets.existingSecret .Values.secrets.sources .Values.secrets.store -}}
{{- range .Values.secrets.from }}{{ $names = append $names .name }}{{ end -}}
{{- $content := list .Values.secrets.values -}}
{{- range compact $names | uniq | sortAlpha }}{{ $content = append $content ((lookup "v1" "Secret" $.Release.Namespace .).data | default dict) }}{{ end -}}
{{- toJson $content | sha256sum -}}
{{- end }}
