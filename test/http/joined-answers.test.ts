import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinAnswers } from '#http/joined-answers.ts'
import type { RawReply } from '#http/route.ts'

const listOf = (text: string, times: number) => ({
  ...{ before: '[', after: ']' },
  items: [{ status: 200, raw: JSON.stringify(text.repeat(times)) }] as RawReply[],
})

test('a long list that changes during compression is sent uncompressed; a short list is always compressed', async () => {
  let nowMs = 0
  const joined = joinAnswers({ listsMax: 10, nowMs: () => nowMs })
  const encoding = async (name: string, list: ReturnType<typeof listOf>) => {
    const { raw, headers } = await joined.answer(name, list, 'gzip')
    assert.equal(raw.length < 2_000, headers?.['content-encoding'] === 'gzip')
    return headers?.['content-encoding']
  }
  const [first, second] = [listOf('a', 200_000), listOf('b', 200_000)]
  const compressing = encoding('long', first)
  assert.equal(await encoding('long', second), undefined, 'one at a time')
  nowMs = 10
  assert.equal(await compressing, 'gzip')
  nowMs = 39
  assert.equal(await encoding('long', second), undefined)
  assert.equal(await encoding('short', listOf('c', 10_000)), 'gzip')
  nowMs = 40
  assert.equal(await encoding('long', second), 'gzip')
  assert.equal(await encoding('long', second), 'gzip', 'it is kept')
})
