/** A collector of traces in the test's own process: takes OTLP over HTTP in JSON, and keeps the spans. */

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type CollectedSpan = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly name: string
  readonly thread: string
  readonly fromMs: number
  readonly toMs: number
  readonly attributes: Readonly<Record<string, string>>
}

type Attributes = readonly {
  readonly key: string
  readonly value: { readonly stringValue?: string; readonly intValue?: string }
}[]
type Sent = Pick<CollectedSpan, 'traceId' | 'spanId' | 'parentSpanId' | 'name'> & {
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: Attributes
}
type Body = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes }
    readonly scopeSpans: readonly { readonly spans: readonly Sent[] }[]
  }[]
}

export async function openCollector() {
  const spans: CollectedSpan[] = []
  let status = 200
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (part: string) => {
      text += part
    })
    request.on('end', () => {
      assert.equal(request.headers['content-type'], 'application/json')
      if (status === 200) spans.push(...spansIn(JSON.parse(text) as Body))
      response.writeHead(status).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    spans,
    url: `http://127.0.0.1:${port}/v1/traces`,
    answerWith(next: number) {
      status = next
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function spansIn({ resourceSpans }: Body): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const thread = recordOf(resource.attributes)['sibyl.thread'] ?? ''
    return scopeSpans.flatMap(({ spans }) =>
      spans.map(({ traceId, spanId, parentSpanId, name, ...span }) => ({
        ...{ traceId, spanId, parentSpanId, name, thread },
        fromMs: Number(span.startTimeUnixNano) / 1e6,
        toMs: Number(span.endTimeUnixNano) / 1e6,
        attributes: recordOf(span.attributes),
      })),
    )
  })
}

function recordOf(attributes: Attributes): Record<string, string> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? '']),
  )
}
