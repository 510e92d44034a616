/**
 * Finds changes of the API that break clients, and describes each in one sentence: removed operations, parameters,
 * fields and values, and requests that were valid and are now refused. Additions break nothing: answers may gain fields
 * and values.
 */

export type Json = { readonly [key: string]: unknown }
/** Clients write requests and read answers, so a safe change of one can be a breaking change of the other. */
type Direction = 'request' | 'answer'

const METHODS = ['get', 'put', 'post', 'delete', 'patch']

type Pair = { readonly before: Json; readonly after: Json }

export function brokenOperations(documents: Pair): string[] {
  const broken: string[] = []
  for (const [path, operations] of entriesOf(documents.before.paths)) {
    for (const method of METHODS) {
      const before = operations[method] as Json | undefined
      const after = objectOf(objectOf(documents.after.paths)[path])[method] as Json | undefined
      if (before === undefined) continue
      const name = `${method.toUpperCase()} ${path}`
      if (after === undefined) broken.push(`${name} is gone`)
      else
        broken.push(...brokenOperation({ before, after }, documents).map((it) => `${name}: ${it}`))
    }
  }
  return broken
}

/** Compares the messages of the stream: clients' frames are requests, the exchange's frames are answers. */
export function brokenMessages(documents: Pair): string[] {
  const messagesOf = (document: Json) => objectOf(objectOf(document.components).messages)
  const broken: string[] = []
  for (const [name, message] of entriesOf(messagesOf(documents.before))) {
    const after = messagesOf(documents.after)[name] as Json | undefined
    if (after === undefined) {
      broken.push(`the message ${name} is gone`)
      continue
    }
    const payload = { before: objectOf(message.payload), after: objectOf(after.payload) }
    const direction = 'op' in objectOf(payload.before.properties) ? 'request' : 'answer'
    broken.push(...compare(payload, { documents, direction, at: name, seen: new Set() }))
  }
  return broken
}

function brokenOperation(pair: Pair, documents: Pair): string[] {
  const { before, after } = pair
  const broken: string[] = []
  if (before.operationId !== after.operationId) {
    broken.push(`operationId ${before.operationId} is now ${after.operationId}`)
  }
  if (isOpen(before) && !isOpen(after)) broken.push('it needs a token now')
  broken.push(...brokenParameters(pair, documents))
  const bodies = { before: objectOf(before.requestBody), after: objectOf(after.requestBody) }
  if (bodies.after.required === true && bodies.before.required !== true) {
    broken.push('it needs a body now')
  }
  broken.push(...brokenContent(bodies, { documents, direction: 'request', at: 'body' }))
  for (const [status, response] of entriesOf(before.responses)) {
    const now = objectOf(after.responses)[status] as Json | undefined
    if (now === undefined) {
      if (/^[23]/.test(status)) broken.push(`it does not answer ${status} any more`)
      continue
    }
    const responses = { before: response, after: now }
    broken.push(...brokenContent(responses, { documents, direction: 'answer', at: status }))
  }
  return broken
}

/** Returns whether the operation can be called without a token. */
function isOpen({ security }: Json): boolean {
  const ways = (security ?? []) as Json[]
  return ways.length === 0 || ways.some((way) => Object.keys(way).length === 0)
}

function brokenParameters({ before, after }: Pair, documents: Pair): string[] {
  const listed = (operation: Json) =>
    new Map(
      ((operation.parameters ?? []) as Json[]).map(
        (one) => [`${one.in} ${one.name}`, one] as const,
      ),
    )
  const now = listed(after)
  const broken: string[] = []
  for (const [name, parameter] of listed(before)) {
    const same = now.get(name)
    now.delete(name)
    if (same === undefined) {
      broken.push(`the parameter ${name} is gone`)
      continue
    }
    if (same.required === true && parameter.required !== true)
      broken.push(`${name} is required now`)
    const schemas = { before: objectOf(parameter.schema), after: objectOf(same.schema) }
    const where = { documents, direction: 'request', at: name, seen: new Set<string>() } as const
    broken.push(...compare(schemas, where))
  }
  for (const [name, parameter] of now) {
    if (parameter.required === true) broken.push(`${name} is new and required`)
  }
  return broken
}

type Where = {
  readonly documents: Pair
  readonly direction: Direction
  readonly at: string
  /**
   * Pairs of references whose comparison has begun. They are not compared again, because schemas may refer to
   * themselves.
   */
  readonly seen: ReadonlySet<string>
}

function brokenContent({ before, after }: Pair, where: Omit<Where, 'seen'>): string[] {
  const broken: string[] = []
  for (const [type, content] of entriesOf(before.content)) {
    const now = objectOf(after.content)[type] as Json | undefined
    if (now === undefined) broken.push(`${where.at}: ${type} is gone`)
    else {
      const schemas = { before: objectOf(content.schema), after: objectOf(now.schema) }
      broken.push(...compare(schemas, { ...where, seen: new Set() }))
    }
  }
  return broken
}

function compare(pair: Pair, where: Where): string[] {
  const { documents, direction, at } = where
  const names = `${pair.before.$ref ?? ''} ${pair.after.$ref ?? ''}`
  if (where.seen.has(names)) return []
  const seen = names === ' ' ? where.seen : new Set([...where.seen, names])
  const inner = { ...where, seen }
  const before = resolved(pair.before, documents.before)
  const after = resolved(pair.after, documents.after)
  const choices = { before: choicesOf(before), after: choicesOf(after) }
  if (choices.before !== undefined || choices.after !== undefined) {
    return compareChoices(choices.before ?? [before], choices.after ?? [after], inner)
  }
  const types = { before: typesOf(before), after: typesOf(after) }
  // In a request, the new types must include the old ones. In an answer, the old types must include the new ones.
  const [narrow, wide] =
    direction === 'request' ? [types.before, types.after] : [types.after, types.before]
  if (!isWithin(narrow, wide)) {
    return [`${at} was ${[...types.before].join(' or ')} and is ${[...types.after].join(' or ')}`]
  }
  return [
    ...missingValues({ before, after }, at),
    ...(direction === 'request' ? tightened({ before, after }, at) : []),
    ...brokenFields({ before, after }, inner),
    ...(before.items === undefined || after.items === undefined
      ? []
      : compare(
          { before: objectOf(before.items), after: objectOf(after.items) },
          { ...inner, at: `${at}[]` },
        )),
    ...(isObject(before.additionalProperties) && isObject(after.additionalProperties)
      ? compare(
          { before: before.additionalProperties, after: after.additionalProperties },
          { ...inner, at: `${at}.*` },
        )
      : []),
  ]
}

/**
 * Compares lists of alternatives. In a request, each old alternative must fit a new one. In an answer, each new
 * alternative must fit an old one.
 */
function compareChoices(before: readonly Json[], after: readonly Json[], where: Where): string[] {
  const isRequest = where.direction === 'request'
  const [each, some] = isRequest ? [before, after] : [after, before]
  const broken: string[] = []
  for (const [index, one] of each.entries()) {
    const reasons = some.map((other) =>
      compare(isRequest ? { before: one, after: other } : { before: other, after: one }, where),
    )
    if (reasons.some((reason) => reason.length === 0)) continue
    // The error describes the comparison with the alternative at the same index, the most likely counterpart.
    const likely = reasons[index] ?? reasons[0] ?? []
    broken.push(...(likely.length > 0 ? likely : [`${where.at}: a choice is gone`]))
  }
  return broken
}

function brokenFields({ before, after }: Pair, where: Where): string[] {
  const { direction, at } = where
  const fields = { before: objectOf(before.properties), after: objectOf(after.properties) }
  const required = (schema: Json) => new Set((schema.required ?? []) as string[])
  const [neededBefore, neededAfter] = [required(before), required(after)]
  const broken: string[] = []
  for (const [name, field] of entriesOf(fields.before)) {
    const path = `${at}.${name}`
    const now = fields.after[name] as Json | undefined
    if (now === undefined) {
      if (direction === 'answer' || after.additionalProperties === false) {
        broken.push(`${path} is gone`)
      }
      continue
    }
    if (direction === 'answer' && neededBefore.has(name) && !neededAfter.has(name)) {
      broken.push(`${path} may be missing now`)
    }
    broken.push(...compare({ before: field, after: now }, { ...where, at: path }))
  }
  if (direction === 'request') {
    for (const name of neededAfter) {
      if (!neededBefore.has(name)) broken.push(`${at}.${name} is required now`)
    }
  }
  return broken
}

function missingValues({ before, after }: Pair, at: string): string[] {
  const [had, has] = [valuesOf(before), valuesOf(after)]
  if (has === undefined) return []
  // Before, any value was valid; now only the listed ones are.
  if (had === undefined) return [`${at} is one of ${has.join(', ')} only`]
  return had.filter((value) => !has.includes(value)).map((value) => `${at}: ${value} is gone`)
}

const FLOORS = ['minimum', 'minLength', 'minItems'] as const
const CEILINGS = ['maximum', 'maxLength', 'maxItems'] as const

/** Finds limits that refuse requests which were valid before. */
function tightened({ before, after }: Pair, at: string): string[] {
  const broken: string[] = []
  const number = (value: unknown, otherwise: number) =>
    typeof value === 'number' ? value : otherwise
  for (const key of FLOORS) {
    const was = number(before[key], Number.NEGATIVE_INFINITY)
    if (number(after[key], Number.NEGATIVE_INFINITY) > was) {
      broken.push(`${at}: ${key} is ${after[key]}, it was ${before[key] ?? 'none'}`)
    }
  }
  for (const key of CEILINGS) {
    const was = number(before[key], Number.POSITIVE_INFINITY)
    if (number(after[key], Number.POSITIVE_INFINITY) < was) {
      broken.push(`${at}: ${key} is ${after[key]}, it was ${before[key] ?? 'none'}`)
    }
  }
  if (after.pattern !== undefined && after.pattern !== before.pattern) {
    broken.push(`${at}: its pattern is another`)
  }
  if (after.additionalProperties === false && before.additionalProperties !== false) {
    broken.push(`${at} takes no other fields any more`)
  }
  return broken
}

function valuesOf(schema: Json): string[] | undefined {
  const values = schema.const === undefined ? schema.enum : [schema.const]
  return (values as unknown[] | undefined)?.map((value) => JSON.stringify(value))
}

const ANY = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

function typesOf({ type }: Json): ReadonlySet<string> {
  return new Set(
    type === undefined ? ANY : Array.isArray(type) ? (type as string[]) : [String(type)],
  )
}

function isWithin(narrow: ReadonlySet<string>, wide: ReadonlySet<string>): boolean {
  return [...narrow].every((type) => wide.has(type) || (type === 'integer' && wide.has('number')))
}

function choicesOf({ anyOf, oneOf }: Json): Json[] | undefined {
  return (anyOf ?? oneOf) as Json[] | undefined
}

function resolved(schema: Json, document: Json): Json {
  if (typeof schema.$ref !== 'string') return schema
  let at: unknown = document
  for (const step of schema.$ref.split('/').slice(1)) at = objectOf(at)[step]
  return resolved(objectOf(at), document)
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function objectOf(value: unknown): Json {
  return isObject(value) ? value : {}
}

function entriesOf(value: unknown): [string, Json][] {
  return Object.entries(objectOf(value)).map(([name, one]) => [name, objectOf(one)])
}

/**
 * Keys of objects whose own keys are names, such as the names of fields. A name can also be `description`, so
 * `contractOf` removes no key of such an object.
 */
const NAMED = new Set(['properties', 'schemas', 'messages', 'paths', 'responses', 'content'])
const WORDS = new Set(['description', 'summary', 'examples', 'example', 'title'])

/** Removes descriptions and examples from a document. Clients depend only on the rest. */
export function contractOf(document: Json): Json {
  const strip = (value: unknown, named: boolean): unknown => {
    if (Array.isArray(value)) return value.map((one) => strip(one, false))
    if (!isObject(value)) return value
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => named || !WORDS.has(key))
        .map(([key, one]) => [key, strip(one, !named && NAMED.has(key))]),
    )
  }
  const { info, tags: _, ...rest } = document
  return { ...(strip(rest, false) as Json), info: { version: objectOf(info).version } }
}
