<# The first lines of every kernel of attention; its last parameters are of these types. #>
    Scores scores{<% for x in operands if not x.tiled %>x<< x.k >>, <% endfor %><% for x in tables %>t<< x.k >>, <% endfor %>score_steps, A(<< "1" if prescaled else "sizes.scale" >>)};
<% if listed and fed %>
    scores.bits = bits;
<% endif %>
    const Draw draw{<< "live ? *live : drawn" if dropping else "0" >>};
    extern __shared__ __align__(128) unsigned char shared[];
<% if not listed %>
    constexpr const int* lists = nullptr;
<% endif %>
