/**
 * `GET /api/v1/changes`: a JSON feed of the changes to the API, the newest first. Its items are the entries of
 * CHANGELOG.md that begin with `API:`.
 */

import { createHash } from 'node:crypto'
import { lazily } from '#http/lazily.ts'
import { type AnswerRoute, route } from '#http/route.ts'
import { ChangesAnswer } from '#protocol/shapes/config.ts'

const FEED_TYPE = 'application/feed+json'
const FEED_VERSION = 'https://jsonfeed.org/version/1.1'
const MARK = 'API: '

type Change = {
  readonly version: string
  /** Day of the release; absent if the changelog has no day for the version. */
  readonly day?: string
  readonly text: string
}

/**
 * Returns the entries that begin with `API:`, newest first. The versions keep the order of the file; the entries of
 * each version are reversed.
 */
export function apiChanges(changelog: string): Change[] {
  const changes: Change[] = []
  for (const section of changelog.split(/^## /m).slice(1)) {
    const [heading = '', ...lines] = section.split('\n')
    const [, version = heading.trim(), day] =
      /^(\S+)(?: \((\d{4}-\d\d-\d\d)\))?\s*$/.exec(heading) ?? []
    const withoutGroups = lines.filter((line) => !line.startsWith('### '))
    const entries = withoutGroups.join('\n').split(/^- /m).slice(1)
    for (const entry of entries.toReversed()) {
      if (!entry.startsWith(MARK)) continue
      const sentences = entry.slice(MARK.length).trim().split('\n')
      const text = sentences.map((line) => line.trim()).join(' ')
      changes.push({ version, ...(day === undefined ? {} : { day }), text })
    }
  }
  return changes
}

export function changes(title: string, readChangelog: () => Promise<string>): AnswerRoute {
  const feed = lazily(async () => JSON.stringify(feedOf(title, await readChangelog())))
  return route({
    method: 'GET',
    path: '/api/v1/changes',
    operationId: 'listApiChanges',
    auth: 'public',
    cost: 'read',
    tag: 'operation',
    summary: 'Get a feed of the changes to this API',
    cacheControl: 'no-cache',
    revalidates: true,
    produces: FEED_TYPE,
    responses: { 200: ChangesAnswer },
    handle: async () => ({ status: 200, raw: await feed(), contentType: FEED_TYPE }),
  })
}

function feedOf(title: string, changelog: string): ChangesAnswer {
  return {
    version: FEED_VERSION,
    title: `${title}: changes to the API`,
    items: apiChanges(changelog).map(({ version, day, text }) => ({
      id: createHash('sha256').update(`${version}\n${text}`).digest('hex').slice(0, 32),
      content_text: text,
      tags: [version],
      ...(day === undefined ? {} : { date_published: `${day}T00:00:00Z` }),
    })),
  }
}
