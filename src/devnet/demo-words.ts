/** Texts of three demo markets of different categories and lengths, and of an event with three further markets. */

import type { EventInfo } from '#domain/event-info.ts'
import type { Category } from '#domain/market.ts'

export const DEMO_WORDS: readonly {
  readonly category: Category
  readonly question: string
  readonly description: string
  readonly days: number
}[] = [
  {
    category: 'general',
    question: 'Will it rain in Delphi this month?',
    description: 'YES if the weather station at Delphi measures any rain before the expiration.',
    days: 30,
  },
  {
    category: 'defi',
    question: 'Will the total value locked in DeFi double within a quarter?',
    description: 'YES if it is at least twice what it was at creation when the market expires.',
    days: 90,
  },
  {
    category: 'stablecoin',
    question: 'Will USDC trade at one dollar on every day of this week?',
    description: 'YES if its daily closing price stays from 0.995 to 1.005 until the expiration.',
    days: 7,
  },
]

export const DEMO_EVENT: {
  readonly info: Omit<EventInfo, 'end'>
  readonly questions: readonly string[]
  /** Question of the one market with complementary matching. */
  readonly complementary: string
  readonly description: string
  readonly days: number
} = {
  info: {
    slug: 'pythian-foot-race',
    title: 'Who wins the foot race at the Pythian Games?',
    category: 'general',
    tags: ['sport', 'delphi'],
    image: '🏃',
    description: 'One market per runner. At most one of them wins; a tie resolves all to NO.',
    exclusive: true,
  },
  questions: [
    'Does Astylos of Croton win the foot race?',
    'Does Chionis of Sparta win the foot race?',
    'Does Phanas of Pellene win the foot race?',
  ],
  complementary: 'Does Phanas of Pellene win the foot race?',
  description: 'YES if the judges at Delphi declare this runner the only winner.',
  days: 45,
}
