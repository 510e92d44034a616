/**
 * A Postman collection (version 2.1) made from the OpenAPI document: a folder per heading, a request per operation
 * with its first example. `baseUrl` and `token` are variables of the collection.
 */

type Json = Readonly<Record<string, unknown>>

type Parameter = {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description?: string
  readonly schema?: Json
}
type Operation = {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly deprecated?: boolean
  readonly tags?: readonly string[]
  readonly security?: readonly Json[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly examples?: Json }>>
  }
}
type Openapi = {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly tags?: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const SCHEMA = 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json'
const UNTAGGED = 'other'
const NO_AUTH = { type: 'noauth' }

export function postmanCollection(document: object): Json {
  const { info, tags = [], paths } = document as Openapi
  const folders = new Map<string, { name: string; description?: string; item: Json[] }>(
    tags.map((tag) => [tag.name, { ...tag, item: [] }]),
  )
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = operation.tags?.[0] ?? UNTAGGED
      const folder = folders.get(name) ?? { name, item: [] }
      folders.set(name, folder)
      folder.item.push(requestItem(method.toUpperCase(), path, operation))
    }
  }
  return {
    info: {
      name: `${info.title} API ${info.version}`,
      ...(info.description === undefined ? {} : { description: info.description }),
      schema: SCHEMA,
    },
    item: [...folders.values()].filter(({ item }) => item.length > 0),
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{token}}', type: 'string' }] },
    variable: [
      { key: 'baseUrl', value: 'http://127.0.0.1:8080', type: 'string' },
      { key: 'token', value: '', type: 'string' },
    ],
  }
}

function requestItem(method: string, path: string, operation: Operation): Json {
  const { operationId, summary, description, deprecated, security = [] } = operation
  const content = operation.requestBody?.content['application/json']
  const needsToken = security.length > 0
  const words = [deprecated === true ? 'Deprecated.' : '', summary ?? '', description ?? '']
  return {
    name: operationId,
    request: {
      method,
      description: words.filter((text) => text !== '').join('\n\n'),
      header: content === undefined ? [] : [{ key: 'Content-Type', value: 'application/json' }],
      // Requests that can carry a token inherit the authentication of the collection.
      ...(needsToken ? {} : { auth: NO_AUTH }),
      url: urlOf(path, operation.parameters ?? []),
      ...(content === undefined
        ? {}
        : {
            body: {
              mode: 'raw',
              raw: JSON.stringify(firstExample(content.examples), null, 2),
              options: { raw: { language: 'json' } },
            },
          }),
    },
  }
}

function urlOf(path: string, parameters: readonly Parameter[]): Json {
  const parts = path.split('/').slice(1)
  const named = parts.map((part) => part.replace(/^\{(\w+)\}$/, ':$1'))
  const query = parameters
    .filter(({ in: place }) => place === 'query')
    .map((parameter) => ({
      ...variable(parameter),
      // An optional parameter is shown but disabled.
      ...(parameter.required ? {} : { disabled: true }),
    }))
  const sent = query.filter((one) => !('disabled' in one)).map(({ key }) => `${key}=`)
  return {
    raw: `{{baseUrl}}/${named.join('/')}${sent.length === 0 ? '' : `?${sent.join('&')}`}`,
    host: ['{{baseUrl}}'],
    path: named,
    query,
    variable: parameters.filter(({ in: place }) => place === 'path').map(variable),
  }
}

function variable({ name, description }: Parameter) {
  return { key: name, value: '', ...(description === undefined ? {} : { description }) }
}

function firstExample(examples: Json = {}): unknown {
  const [first] = Object.values(examples) as { readonly value?: unknown }[]
  return first?.value ?? {}
}
