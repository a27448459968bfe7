import { PostGraphileAmberPreset } from 'postgraphile/presets/amber';

export default {
  extends: [PostGraphileAmberPreset],
  grafserv: { graphiql: false, watch: false },
  grafast: { explain: false },
};
