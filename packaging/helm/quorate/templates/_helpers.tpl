{{- define "quorate.labels" -}}
app.kubernetes.io/name: quorate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quorate.scheme" -}}
{{ if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}

{{- define "quorate.peers" -}}
{{- $scheme := include "quorate.scheme" . -}}
{{- $name := .Release.Name -}}
{{- $domain := printf "%s-peers.%s.svc.%s" $name .Release.Namespace .Values.clusterDomain -}}
{{- range $i := until (int .Values.replicas) -}}
{{- if $i }},{{ end }}{{ add $i 1 }}={{ $scheme }}://{{ $name }}-{{ add $i 1 }}.{{ $domain }}:2380
{{- end -}}
{{- end }}
