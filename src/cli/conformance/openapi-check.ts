/** Compares an OpenAPI document with the list of endpoints that every server must have (`endpoints.ts`). */

import { ENDPOINTS, type Endpoint } from './endpoints.ts'

type Schema = {
  readonly $ref?: string
  readonly properties?: Record<string, Schema>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
}
type Content = Record<
  string,
  { readonly schema?: Schema; readonly examples?: Record<string, { readonly value: object }> }
>
type Operation = {
  readonly parameters?: readonly { name: string; in: string; required?: boolean }[]
  readonly security?: readonly object[]
  readonly requestBody?: { readonly content: Content }
  readonly responses?: Record<string, { readonly content?: Content }>
}
export type OpenApi = {
  readonly openapi?: string
  readonly paths?: Record<string, Record<string, Operation>>
  readonly components?: { readonly schemas?: Record<string, Schema> }
}

/**
 * Lists the required endpoints, parameters, fields and examples that are missing in the document, and endpoints whose
 * security requirement is wrong.
 */
export function missingFrom(document: OpenApi): string[] {
  return ENDPOINTS.flatMap((endpoint) => {
    const { method, path } = endpoint
    const operation = document.paths?.[path]?.[method.toLowerCase()]
    const missing = operation === undefined ? [''] : missingOf(endpoint, operation, document)
    return missing.map((what) => `${method} ${path} ${what}`.trim())
  })
}

function missingOf(endpoint: Endpoint, operation: Operation, document: OpenApi): string[] {
  const { auth, query, body = [], fields, list, sometimes } = endpoint
  const missing: string[] = []
  const demandFields = (known: object, wanted: readonly string[], where: string): void => {
    for (const name of wanted) if (!(name in known)) missing.push(`${where}${name}`)
  }
  for (const [name, need] of Object.entries(query)) {
    const found = operation.parameters?.filter((one) => one.name === name) ?? []
    const fits = found.every((one) => one.in === 'query' && one.required === (need === 'required'))
    if (found.length !== 1 || !fits) missing.push(`?${name} (${need})`)
  }
  const isWrite = operation.security?.some((one) => 'bearer' in one) ?? false
  if (isWrite !== (auth === 'write')) missing.push(`security of ${auth}`)

  const sent = operation.requestBody?.content['application/json']
  demandFields(propertiesOf(sent?.schema, document), body, 'body.')
  if (body.length > 0 && examplesOf(sent).length === 0) missing.push('an example of a body')
  if (fields.length === 0) return missing

  const answer = operation.responses?.['200']?.content?.['application/json']
  const properties = propertiesOf(answer?.schema, document)
  demandFields(properties, [...fields, ...sometimes], '')
  if (list !== undefined) {
    const entry = schemaOf(properties[list[0]], document).items
    demandFields(properties, [list[0]], '')
    demandFields(propertiesOf(entry, document), list[1], `${list[0]}[].`)
  }
  const examples = examplesOf(answer)
  if (examples.length === 0) missing.push('an example of an answer')
  if (examples.length === 1) demandFields(examples[0]!.value, fields, 'example.')
  return missing
}

const examplesOf = (content: Content[string] | undefined) => Object.values(content?.examples ?? {})

function schemaOf(schema: Schema | undefined, document: OpenApi): Schema {
  const name = schema?.$ref?.split('/').at(-1)
  return name === undefined
    ? (schema ?? {})
    : schemaOf(document.components?.schemas?.[name], document)
}

/** Returns the properties of a schema, including properties that only some alternatives of the schema have. */
function propertiesOf(schema: Schema | undefined, document: OpenApi): Record<string, Schema> {
  const { properties = {}, anyOf = [], oneOf = [] } = schemaOf(schema, document)
  const all = { ...properties }
  for (const one of [...anyOf, ...oneOf]) Object.assign(all, propertiesOf(one, document))
  return all
}
